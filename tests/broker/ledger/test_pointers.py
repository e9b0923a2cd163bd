"""Where a stream is continued: a pointer or a row that is not what was written doubles no number (docs/ledger.md)."""

import asyncio
from pathlib import Path

import pytest

from lifebus_broker.ledger.sqlite import store
from lifebus_broker.ledger.sqlite.checks.scrub import scrub
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.file import BOOT_TAIL
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import AppendResult
from support.patience import PATIENCE_S
from support.receipts import keyed, recorded
from support.snapshots.ledgers import change_rows

OLD = 20
"""Receipts of the session that is quiet since; no start looks at them."""


@pytest.fixture(params=["pointed", "not yet"])
async def path(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of a quiet session and a busy one, whose newest rows pointers lead to, or do not yet."""
    if request.param == "pointed":
        monkeypatch.setattr(store, "POINT_EVERY", BOOT_TAIL // 2)
    ledger = await SqliteLedger.open(tmp_path / "ledger.db")
    await recorded(ledger, keyed(range(OLD), harness_session_id="quiet"))
    for start in range(OLD, BOOT_TAIL + 200, 100):
        await recorded(ledger, keyed(range(start, start + 100), harness_session_id="busy"))
    await ledger.aclose()
    return tmp_path / "ledger.db"


async def continued(path: Path) -> tuple[list[int | None], str]:
    """Record one more receipt of the quiet session; return its sequence, or why the ledger ends."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[list[int | None], str]] = loop.create_future()
    ledger = await SqliteLedger.open(path, failed=lambda fault: ended.set_result(([], str(fault))))
    (entry,) = keyed(range(50_000, 50_001), harness_session_id="quiet")

    def answer_with(results: list[AppendResult]) -> None:
        ended.set_result(([one.stored.sequence for one in results if one.stored], ""))

    ledger.append([entry], answer_with)
    async with asyncio.timeout(PATIENCE_S):
        answer = await ended
    await ledger.aclose()
    return answer


def scrubbed(path: Path) -> list[str]:
    found: list[str] = []
    scrub(path, 0, lambda _: None, found.extend)
    return found


async def test_a_quiet_session_goes_on_where_it_stopped(path: Path) -> None:
    assert await continued(path) == ([OLD + 1], "")
    assert (verify(path), scrubbed(path)) == ([], [])


async def test_what_a_receipt_continues_is_looked_at_before_it_is_recorded(path: Path) -> None:
    change_rows(path, f"UPDATE rows SET sequence = 3 WHERE position = {OLD}")
    assert await continued(path) == ([], f"row {OLD}: sequence does not match")


async def test_a_session_whose_newest_receipt_is_damaged_goes_on(path: Path) -> None:
    change_rows(path, f"UPDATE rows SET receipt = CAST('{{}}' AS BLOB) WHERE position = {OLD}")
    assert await continued(path) == ([OLD + 1], "")
    assert [finding.partition(":")[0] for finding in verify(path)] == [f"row {OLD}"]


@pytest.mark.parametrize("path", ["pointed"], indirect=True)
@pytest.mark.parametrize("to", [500, 99_999])
async def test_a_pointer_that_leads_elsewhere_ends_the_ledger_and_is_found(path: Path, to: int) -> None:
    change_rows(path, f"UPDATE tips SET position = {to} WHERE stream = 1")
    assert f"row {to}: the pointer of stream 1 is not as the rows say" in verify(path)
    assert f"row {to}: the pointer of stream 1 is not as the rows say" in scrubbed(path)
    assert await continued(path) == ([], f"row {to}: the pointer of stream 1 is not as the rows say")


@pytest.mark.parametrize("path", ["pointed"], indirect=True)
@pytest.mark.parametrize(
    "damage", ["UPDATE tips SET position = 5 WHERE stream = 1", "DELETE FROM tips WHERE stream = 1"]
)
def test_a_pointer_that_stayed_behind_is_found_by_verify_and_by_the_scrub(path: Path, damage: str) -> None:
    change_rows(path, damage)
    assert f"row {OLD}: the pointer of stream 1 is not as the rows say" in verify(path)
    assert scrubbed(path) == [f"row {OLD}: the pointer of stream 1 is not as the rows say"]


async def test_the_head_of_a_session_is_what_its_receipt_says(path: Path) -> None:
    change_rows(path, f"UPDATE rows SET sequence = 3, status = 'failed', at_epoch_s = 7 WHERE position = {OLD}")
    ledger = await SqliteLedger.open(path)
    (head,) = await ledger.sessions(("codex", "quiet"))
    (of_all,) = [one for one in await ledger.sessions() if one.harness_session_id == "quiet"]
    await ledger.aclose()
    assert (head.sequence, str(head.last_status), head.last_at_epoch_s > 7) == (OLD, "observed", True)
    assert of_all == head
