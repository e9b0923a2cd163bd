"""A ledger that was exported and imported is the same ledger; an export that does not follow makes none."""

import io
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_broker.exports.jsonl_log import JsonlLog
from lifebus_broker.exports.writer import write_export
from lifebus_broker.ledger.records import append_records
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.transfer.exporter import SqliteExport, finish_pruning
from lifebus_broker.ledger.sqlite.transfer.importer import build_ledger
from lifebus_broker.ports import EMITTER, NewRecord
from lifebus_contract import InvalidRequest, LifecycleEvent
from support.receipts import append, entry, recorded

SESSIONS = ["s1", "s2", None, "s3"]


async def make(path: Path, count: int = 12, floor: int = 5, notes: int = 6, dropped: int = 2) -> None:
    """A ledger with a pruned beginning, keys of emitters, and notes of which some were dropped."""
    ledger = await SqliteLedger.open(path, clock=lambda: 1_790_000_000.5)
    for n in range(count):
        facts = {EMITTER: "bob"} if n % 3 == 1 else {}
        event = LifecycleEvent.SESSION_ENDED if n == 3 else LifecycleEvent.FRAME_OPENED
        key = None if n % 5 == 4 else f"k{n}"
        session = SESSIONS[n % len(SESSIONS)]
        await recorded(ledger, [entry(n, key=key, harness_session_id=session, event=event, telemetry_summary=facts)])
    for n in range(notes):
        await append_records(
            ledger.journal, [NewRecord("cursor/a", b"a%d" % n), NewRecord("signal/ü", bytes([n, 255]))]
        )
    await append_records(ledger.journal, [NewRecord("gone", b"x")])
    await ledger.journal.drop("gone", 9)
    if dropped:
        await ledger.journal.drop("cursor/a", dropped)
    if floor:
        await ledger.prune(floor, b'{"stands":"for the base"}')
    await ledger.aclose()
    finish_pruning(path)


def export(path: Path) -> bytes:
    text = io.BytesIO()
    with SqliteExport(path) as source:
        write_export(source, 1, text.write)
    return text.getvalue()


def build(directory: Path, text: bytes) -> Path:
    (directory / "export").write_bytes(text)
    target = directory / "made.db"
    target.unlink(missing_ok=True)
    build_ledger(JsonlLog.open(directory / "export"), target, "f" * 32)
    return target


def resealed(lines: list[bytes]) -> bytes:
    """The lines before the last one, and a last line that agrees with them."""
    body, last = b"".join(lines[:-1]), json.loads(lines[-1])
    last["end"]["sha256"] = sha256(body).hexdigest()
    return body + rfc8785.dumps(last) + b"\n"


def changed(text: bytes, kind: bytes, old: str, new: str, number: int = 0) -> bytes:
    """The export with something replaced in the n-th line of a kind, and its last line agreeing."""
    lines = text.splitlines(keepends=True)
    found = [index for index, line in enumerate(lines) if line.startswith(b'{"' + kind)][number]
    assert old.encode() in lines[found]
    lines[found] = lines[found].replace(old.encode(), new.encode(), 1)
    return resealed(lines)


@settings(max_examples=8, deadline=None)
@given(
    count=st.integers(0, 30),
    floor=st.integers(0, 30),
    notes=st.integers(0, 5),
    dropped=st.integers(0, 6),
)
async def test_what_was_imported_is_exported_to_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, count: int, floor: int, notes: int, dropped: int
) -> None:
    directory = tmp_path_factory.mktemp("ledger")
    await make(directory / "ledger.db", count, floor, notes, dropped)
    text = export(directory / "ledger.db")
    made = build(directory, text)
    assert verify(made) == []
    again = export(made)
    epoch = json.loads(text.splitlines()[0])["header"]["epoch"].encode()
    renamed = text.replace(epoch, b"f" * 32, 1).splitlines(keepends=True)
    assert again == resealed(renamed)


async def test_an_imported_ledger_goes_on_as_the_exported_one_would(tmp_path: Path) -> None:
    await make(tmp_path / "ledger.db")
    made = build(tmp_path, export(tmp_path / "ledger.db"))
    sessions, answers = [], []
    for path in (tmp_path / "ledger.db", made):
        ledger = await SqliteLedger.open(path, clock=lambda: 1_790_000_001.5)
        answers.append(
            [
                await append(ledger, [entry(90, key="k8", harness_session_id=None)]),
                await append(ledger, [entry(91, key="k10", client_id="bob")]),
                await append(ledger, [entry(92, key="k11", harness_session_id="s3")]),
                await append(ledger, [entry(93, key="new", harness_session_id="s1")]),
                await append(ledger, [entry(94, key="new too", harness_session_id=None)]),
            ]
        )
        await append_records(ledger.journal, [NewRecord("cursor/a", b"more")])
        sessions.append((await ledger.sessions(), await ledger.journal.streams()))
        assert await ledger.verify() == []
        await ledger.aclose()
    for one, other in zip(*answers, strict=True):
        assert one == other
    for one, other in zip(*sessions, strict=True):
        assert one == other
    assert export(tmp_path / "ledger.db").splitlines()[1:-1] == export(made).splitlines()[1:-1]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (
            lambda text: changed(text, b"digest", '"client_id":"alice"', '"client_id":"alics"', 2),
            "position 8: its link",
        ),
        (lambda text: changed(text, b"digest", '"sequence":2', '"sequence":3', 0), "position 6"),
        (lambda text: changed(text, b"digest", ',"client_id"', ', "client_id"', 1), "position 7: its receipt is not"),
        (lambda text: changed(text, b"digest", '{"digest":"', '{"digest":null,"link":"', 0), "position 6"),
        (lambda text: changed(text, b"digest", '"idempotency_key":"k6"', '"idempotency_key":"k5"', 1), "position 7"),
        (lambda text: changed(text, b'head"', '"sequence":2', '"sequence":3', 1), "position 9: its sequence"),
        (lambda text: changed(text, b'head"', '"position":3', '"position":9', 0), "the head of"),
        (lambda text: changed(text, b"note", '"body":"YTI="', '"body":"YTM="', 0), "note 3 of `cursor/a`: its link"),
        (lambda text: changed(text, b"note", '"number":3', '"number":4', 0), "note 4 of `cursor/a`"),
        (lambda text: changed(text, b"stream", '"floor":2', '"floor":1', 0), "note 3 of `cursor/a`"),
        (lambda text: changed(text, b"stream", '"head":6', '"head":7', 0), "the notes `cursor/a` end with 6"),
    ],
)
async def test_what_does_not_follow_is_named_by_its_place(
    tmp_path: Path, change: Callable[[bytes], bytes], where: str
) -> None:
    await make(tmp_path / "ledger.db")
    with pytest.raises(InvalidRequest, match=where):
        build(tmp_path, change(export(tmp_path / "ledger.db")))
