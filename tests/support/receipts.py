"""Receipts to put into ledgers, and a way to wait for an append."""

import asyncio
from collections.abc import Sequence
from typing import Any

from lifebus_broker.ports import AppendResult, Ledger, NewReceipt, Query, StoredReceipt
from lifebus_contract import IntegrationMode, LifecycleEvent, Receipt, ReceiptStatus
from support.patience import PATIENCE_S

DIGEST = b"0123456789abcdef"
OTHER_DIGEST = b"fedcba9876543210"

_FIELDS: dict[str, Any] = {
    "adapter_id": "codex",
    "at_epoch_s": 1_790_000_000,
    "capability_degradations": (),
    "client_id": "alice",
    "event": LifecycleEvent.FRAME_OPENED,
    "failure_class": None,
    "harness_run_id": None,
    "harness_session_id": "s1",
    "harness_task_id": None,
    "idempotency_key": None,
    "integration_mode": IntegrationMode.NATIVE_HOOK,
    "invocation_id": "inv_1",
    "parent_receipt_id": None,
    "payload_receipts": (),
    "retry_class": None,
    "schema_version": "lifeloop.v0.2",
    "sequence": None,
    "status": ReceiptStatus.OBSERVED,
    "telemetry_summary": {},
    "warnings": (),
}


def receipt(number: int, **changes: Any) -> Receipt:
    """Return a receipt numbered `number`, without an idempotency key unless one is given."""
    return Receipt(**{**_FIELDS, "event_id": f"evt_{number:06d}", "receipt_id": f"lfr_{number:06d}", **changes})


def entry(number: int, *, key: str | None = None, digest: bytes = DIGEST, **changes: Any) -> NewReceipt:
    """Return an entry; with a key it carries `digest`."""
    made = receipt(number, idempotency_key=key, **changes)
    return NewReceipt(receipt=made, digest=None if key is None else digest)


def keyed(numbers: Sequence[int], **changes: Any) -> list[NewReceipt]:
    """Return entries whose keys follow from their numbers."""
    return [entry(number, key=f"k{number:06d}", **changes) for number in numbers]


async def append(ledger: Ledger, entries: Sequence[NewReceipt]) -> list[AppendResult]:
    """Append and wait for the answers."""
    answers: asyncio.Future[list[AppendResult]] = asyncio.get_running_loop().create_future()
    refusal = ledger.append(entries, answers.set_result)
    assert refusal is None, refusal
    async with asyncio.timeout(PATIENCE_S):
        return await answers


async def recorded(ledger: Ledger, entries: Sequence[NewReceipt]) -> list[StoredReceipt]:
    """Append, and return the rows, all of which must be new."""
    answers = await append(ledger, entries)
    assert [answer.refusal for answer in answers] == [None] * len(entries)
    assert not any(answer.replayed for answer in answers)
    return [answer.stored for answer in answers if answer.stored is not None]


async def every_receipt(ledger: Ledger, **query: Any) -> list[StoredReceipt]:
    """Read page by page until nothing is missing."""
    stored: list[StoredReceipt] = []
    after = query.pop("after", 0)
    while True:
        page = await ledger.read(Query(after=after, **query))
        assert not page.snapshot_required
        stored += page.stored
        if page.complete:
            return stored
        assert page.next > after, "a page must lead on"
        after = page.next
