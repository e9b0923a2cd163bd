"""Every recorded hook payload through adapter, bus and back: receipts in the order of the facts, answers in form."""

import json
from pathlib import Path
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS, HookAnswer, HookCall
from lifebus_broker.ports import Query
from lifebus_contract import Receipt, ReceiptStatus, decode_json
from support.adapters.calls import CAPTURE_FILES, captured, delivery, hooks_of, ids
from support.adapters.hook_bus import HookBus, hook_bus

EVERY_CAPTURE = pytest.mark.parametrize(
    "path", CAPTURE_FILES, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}"
)


def _calls(path: Path) -> list[HookCall]:
    return [native for native, _ in captured(path)]


def _events(calls: list[HookCall]) -> list[str]:
    source = ids()
    requests = [
        emission.request for native in calls for emission in ADAPTERS[native.adapter_id].read(native, source).emissions
    ]
    ended: set[str] = set()
    events: list[str] = []
    for request in requests:
        frame = request.frame_context.frame_id if request.frame_context and request.event == "frame.ended" else ""
        if frame not in ended:  # a frame's end is recorded once, however often its harness reports it
            events.append(request.event.value)
        ended |= {frame} - {""}
    return events


@EVERY_CAPTURE
async def test_a_recorded_session_without_clients_is_observed_in_order_and_answered_with_silence(path: Path) -> None:
    calls = _calls(path)
    async with hook_bus() as bus:
        answers = [(await bus.call(native))[1] for native in calls]
        page = await bus.bus.ledger.read(Query(limit=1_000))
    receipts = [decode_json(one.receipt, Receipt) for one in page.stored]
    assert [receipt.event.value for receipt in receipts] == _events(calls)
    assert {receipt.status for receipt in receipts} == {ReceiptStatus.OBSERVED}
    shown = [native.hook in hooks_of(native.adapter_id).displays for native in calls]
    assert {answer for answer, is_shown in zip(answers, shown, strict=True) if not is_shown} == {HookAnswer()}


@EVERY_CAPTURE
async def test_events_of_one_recorded_hook_are_chained_and_recorded_once(path: Path) -> None:
    async with hook_bus() as bus:
        for native in _calls(path):
            receipts, _ = await bus.call(native)
            assert [receipt.parent_receipt_id for receipt in receipts] == [
                None,
                *(receipt.receipt_id for receipt in receipts[:-1]),
            ][: len(receipts)]
            assert (await bus.call(native))[0] == []


def _delivered(native: HookCall, answer: HookAnswer) -> list[str]:
    """Return the payload ids that the harness finds in its native answer."""
    if not answer.stdout or native.hook in hooks_of(native.adapter_id).displays:
        return []
    found: Any = json.loads(answer.stdout)
    for key in _WRAPPING[native.adapter_id]:
        found = found[key]
    return [payload["payload_id"] for payload in json.loads(found)["payloads"]]


_WRAPPING: dict[str, tuple[str | int, ...]] = {
    "codex": ("hookSpecificOutput", "additionalContext"),
    "claude": ("hookSpecificOutput", "additionalContext"),
    "gemini": ("hookSpecificOutput", "additionalContext"),
    "hermes": ("context",),
    "opencode": ("parts", 0, "text"),
    "openclaw": ("prependContext",),
}


def _placed(receipts: list[Receipt]) -> list[str]:
    """Return the payload ids that receipts say went to the harness."""
    landed = (ReceiptStatus.DELIVERED, ReceiptStatus.DEGRADED)
    found = [entry for receipt in receipts for entry in receipt.payload_receipts]
    return [entry.payload_id for entry in found if entry.status in landed and entry.placement is not None]


async def _with_a_client(bus: HookBus) -> None:
    for number, event in enumerate(["session.starting", "session.started", "frame.opening", "frame.opened"]):
        bus.deliver(event, delivery(f"body {number}", payload_id=f"pay_{number}").payload, client_id=f"client-{number}")


@EVERY_CAPTURE
async def test_what_receipts_call_delivered_is_exactly_what_the_harness_is_handed(path: Path) -> None:
    handed = 0
    async with hook_bus() as bus:
        await _with_a_client(bus)
        for native in _calls(path):
            receipts, answer = await bus.call(native)
            assert _delivered(native, answer) == _placed(receipts)
            handed += len(_placed(receipts))
    assert handed > 0
