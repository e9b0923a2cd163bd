"""A log that was changed anywhere, in a file or in an export, is a hard failure that names the first bad place."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lifebus_broker.exports.jsonl_log import JsonlLog
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.snapshots.cold_boot_error import ColdBootError
from lifebus_broker.snapshots.snapshot import SaveSnapshot
from lifebus_broker.state.stores import dump_stores
from lifebus_contract import InvalidRequest
from support.receipts import entry
from support.snapshots.ledgers import change_rows, make_export, make_ledger, resealed
from support.snapshots.logs import booted, saved

COUNT = 40
FLIP = "UPDATE rows SET receipt = CAST(replace(CAST(receipt AS TEXT), 'lfr_', 'lfx_') AS BLOB) WHERE position = {0}"
FORMAT = "UPDATE rows SET receipt = CAST(replace(CAST(receipt AS TEXT), ':', ': ') AS BLOB) WHERE position = {0}"
DROP = "DELETE FROM rows WHERE position = {0}"
UNLINK = "UPDATE rows SET link = zeroblob(32) WHERE position = {0}"
SWAP = (
    "UPDATE rows SET position = -1 WHERE position = {0}; UPDATE rows SET position = {0} WHERE position = {0} + 1;"
    "UPDATE rows SET position = {0} + 1 WHERE position = -1"
)
AGAIN = (
    "UPDATE rows SET position = -position WHERE position > {0};"
    "UPDATE rows SET position = 1 - position WHERE position < 0;"
    "INSERT INTO rows SELECT {0} + 1, stream, previous, sequence, at_epoch_s, event, status, ended, open_frames,"
    " harness_sequence, link, receipt FROM rows WHERE position = {0}"
)
DIGEST = "UPDATE keys SET digest = zeroblob(length(digest)) WHERE position = {0}"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, SaveSnapshot]:
    """A ledger file, its export, and a snapshot of both."""
    directory = tmp_path_factory.mktemp("original")
    ledger, export = directory / "ledger.db", directory / "ledger.jsonl"
    make_ledger(ledger, [entry(n, key=f"k{n}", harness_session_id=f"s{n % 3}") for n in range(COUNT)])
    make_export(ledger, export)
    with SqliteLog(ledger) as log:
        return ledger, export, saved(log)


def test_a_ledger_file_and_its_export_boot_to_the_same_bytes(original: tuple[Path, Path, SaveSnapshot]) -> None:
    ledger, export, snapshot = original

    with SqliteLog(ledger) as log:
        from_file = booted(snapshot, log)
    from_export = booted(snapshot, JsonlLog.open(export))

    assert dump_stores(from_file.stores) == dump_stores(from_export.stores)
    assert from_file.steps == from_export.steps
    assert saved(JsonlLog.open(export)) == snapshot


@pytest.mark.parametrize("position", [1, 17, COUNT - 1, COUNT])
@pytest.mark.parametrize("tamper", [FLIP, FORMAT, DROP, UNLINK, SWAP, AGAIN], ids=str.lower)
def test_tampering_with_a_ledger_file_fails_and_names_the_first_bad_position(
    original: tuple[Path, Path, SaveSnapshot], tmp_path: Path, tamper: str, position: int
) -> None:
    ledger, _, snapshot = original
    shutil.copy(ledger, tmp_path / "ledger.db")
    first = position + 1 if tamper == AGAIN else min(position, COUNT - 1) if tamper == SWAP else position
    change_rows(tmp_path / "ledger.db", tamper.format(first if tamper == SWAP else position))

    with SqliteLog(tmp_path / "ledger.db") as log, pytest.raises(ColdBootError) as failed:
        booted(snapshot, log)

    assert failed.value.position == first
    assert failed.value.step in {3, 4}


def test_a_changed_digest_of_a_key_fails_at_its_receipt(
    original: tuple[Path, Path, SaveSnapshot], tmp_path: Path
) -> None:
    ledger, export, snapshot = original
    shutil.copy(ledger, tmp_path / "ledger.db")
    texts = [line for line in export.read_text().splitlines() if line.startswith('{"digest":"')]
    position = json.loads(texts[-1])["position"]
    change_rows(tmp_path / "ledger.db", DIGEST.format(position))

    with SqliteLog(tmp_path / "ledger.db") as log, pytest.raises(ColdBootError) as failed:
        booted(snapshot, log)

    assert (failed.value.step, failed.value.position) == (4, position)


def flip(log: list[bytes], index: int) -> None:
    log[index] = log[index].replace(b"lfr_", b"lfx_")


def reformat(log: list[bytes], index: int) -> None:
    log[index] = log[index].replace(b'"receipt":', b'"receipt": ')


def drop(log: list[bytes], index: int) -> None:
    del log[index]


def swap(log: list[bytes], index: int) -> None:
    log[index - 1], log[index] = log[index], log[index - 1]


def again(log: list[bytes], index: int) -> None:
    log.insert(index, log[index])


def garble(log: list[bytes], index: int) -> None:
    log[index] = b'{"digest":no JSON\n'


@pytest.mark.parametrize("index", [1, 16, COUNT - 1])
@pytest.mark.parametrize("tamper", [flip, reformat, drop, swap, again, garble])
def test_tampering_with_an_export_fails_and_names_the_first_bad_position(
    original: tuple[Path, Path, SaveSnapshot], tmp_path: Path, tamper: Callable[[list[bytes], int], None], index: int
) -> None:
    _, export, snapshot = original
    changed = tmp_path / "ledger.jsonl"
    shutil.copy(export, changed)
    resealed(changed, lambda log: tamper(log, index))

    with pytest.raises(ColdBootError) as failed:
        booted(snapshot, JsonlLog.open(changed))

    first = index if tamper is swap else index + 2 if tamper is again else index + 1
    assert failed.value.position == first
    assert failed.value.step in {3, 4}


@pytest.mark.parametrize("index", [1, 16, COUNT - 1])
def test_an_export_that_was_changed_in_one_byte_is_not_even_opened(
    original: tuple[Path, Path, SaveSnapshot], tmp_path: Path, index: int
) -> None:
    _, export, _ = original
    lines = export.read_bytes().splitlines(keepends=True)
    lines[index] = lines[index].replace(b"a", b"b", 1)
    (tmp_path / "changed.jsonl").write_bytes(b"".join(lines))

    with pytest.raises(InvalidRequest, match=r"changed\.jsonl"):
        JsonlLog.open(tmp_path / "changed.jsonl")
