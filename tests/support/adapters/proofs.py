"""Proofs of what the v1 manifests claim about events, receipts and ids: each runs the code behind its claim."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_contract import (
    CallbackRequest,
    Emission,
    IntegrationMode,
    InvalidRequest,
    LifecycleEvent,
    Receipt,
    validate,
)
from support.adapters.calls import CAPTURE_FILES, captured, events, hooks_of, ids, parse
from support.adapters.hook_bus import hook_bus
from support.bus_box import answering

Proof = Callable[[str], Awaitable[None]]
"""Takes an adapter id; passes if the claim is true."""

START = {"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup"}
PROMPT = {"session_id": "s1", "turn_id": "t1", "prompt_id": "t1", "hook_event_name": "UserPromptSubmit"}
STOP = {**PROMPT, "hook_event_name": "Stop", "stop_hook_active": False}


def _recorded(adapter_id: str) -> list[tuple[Emission, ...]]:
    """Return what every recorded hook call of a harness yields."""
    files = [path for path in CAPTURE_FILES if path.parent.parent.name == adapter_id]
    return [ADAPTERS[adapter_id].read(native, ids()).emissions for path in files for native, _ in captured(path)]


def _yields(adapter_id: str, event: str) -> bool:
    return any(LifecycleEvent(event) in rule.events for rule in hooks_of(adapter_id).rules.values())


def native_event(event: str) -> Proof:
    async def proof(adapter_id: str) -> None:
        """A recorded hook stands for the event: it is the first thing that the hook yields."""
        assert any(events(found)[:1] == [event] for found in _recorded(adapter_id))

    return proof


def derived_event(event: str, native: str) -> Proof:
    async def proof(adapter_id: str) -> None:
        """The event is derived from the hook of another, in the same invocation."""
        found = [item for item in _recorded(adapter_id) if native in events(item)]
        assert found
        for emissions in found:
            assert events(emissions) == [native, event]
            assert len({emission.request.invocation_id for emission in emissions}) == 1

    return proof


async def pressure_before_compaction(adapter_id: str) -> None:
    found = [item[0] for item in _recorded(adapter_id) if "context.pressure_observed" in events(item)]
    assert found
    assert {emission.telemetry["source_hook"] for emission in found} == {"PreCompact"}
    assert not any("context_used_tokens" in emission.telemetry for emission in found)


async def receipts_are_fanned_out_and_ask_nobody(adapter_id: str) -> None:
    async with hook_bus() as bus:
        recorded, _ = await bus.hook(adapter_id, START)
        assert bus.published == recorded
        with pytest.raises(InvalidRequest):
            bus.bus.register("client", [LifecycleEvent.RECEIPT_EMITTED], answering())
    with pytest.raises(InvalidRequest):
        validate({**_plain_tick(adapter_id), "event": "receipt.emitted"}, CallbackRequest)


async def jumps_of_a_given_sequence_are_noticed(adapter_id: str) -> None:
    async with hook_bus() as bus:
        for sequence in (1, 4):
            await bus.bus.emit("supervisor", [_tick(adapter_id, sequence=sequence)])
        gaps = [receipt for receipt in bus.published if receipt.event is LifecycleEvent.RECEIPT_GAP_DETECTED]
    assert [(gap.telemetry_summary["missing_first"], gap.telemetry_summary["missing_last"]) for gap in gaps] == [(2, 3)]


def _tick(adapter_id: str, **changes: Any) -> Emission:
    return Emission(request=validate({**_plain_tick(adapter_id), **changes}, CallbackRequest))


def _plain_tick(adapter_id: str) -> dict[str, Any]:
    version = ADAPTERS[adapter_id].registered.manifest.adapter_version
    return {
        "schema_version": "lifeloop.v0.2", "event": "supervisor.tick", "event_id": "evt_1", "adapter_id": adapter_id,
        "adapter_version": version, "invocation_id": "inv_1", "integration_mode": "native_hook",
        "harness_session_id": "s1",
    }  # fmt: skip


async def receipts_are_lifebuss_own(adapter_id: str) -> None:
    assert not _yields(adapter_id, "receipt.emitted")
    async with hook_bus() as bus:
        recorded, _ = await bus.hook(adapter_id, STOP)
    assert [receipt.event.value for receipt in recorded] == ["frame.ending", "frame.ended"]


async def the_ledger_numbers_and_keeps(adapter_id: str) -> None:
    """Receipts of a session are numbered without a hole, and a call that comes again after a restart adds none."""
    with TemporaryDirectory() as folder:
        recorded = [await _after_opening(Path(folder), adapter_id) for _ in range(2)]
    assert [receipt.sequence for receipt in recorded[0]] == [1, 2]
    assert recorded[1] == []


async def _after_opening(folder: Path, adapter_id: str) -> list[Receipt]:
    ledger = await SqliteLedger.open(folder / "ledger.db")
    try:
        async with hook_bus(ledger) as bus:
            return (await bus.hook(adapter_id, PROMPT, call_id="same"))[0]
    finally:
        await ledger.aclose()


async def session_ids_are_the_harnesss(adapter_id: str) -> None:
    found = [emission.request for item in _recorded(adapter_id) for emission in item]
    assert found
    assert all(request.harness_session_id for request in found)


async def no_run_id(adapter_id: str) -> None:
    assert all(item.request.harness_run_id is None for found in _recorded(adapter_id) for item in found)


async def turn_ids_are_the_harnesss(adapter_id: str) -> None:
    opened = [item[0] for item in _recorded(adapter_id) if events(item)[:1] == ["frame.opening"]]
    assert opened
    assert all(emission.request.harness_task_id for emission in opened)
    assert parse(adapter_id, PROMPT)[0].request.harness_task_id == "t1"


async def approvals_are_observed_and_not_answered(adapter_id: str) -> None:
    async with hook_bus() as bus:
        request = {**PROMPT, "hook_event_name": "PermissionRequest", "tool_name": "Bash"}
        recorded, answer = await bus.hook(adapter_id, request)
    (tick,) = recorded
    told = {name: tick.telemetry_summary.get(name) for name in ("waiting", "waiting_for", "waiting_kind")}
    assert (tick.event.value, told) == (
        "supervisor.tick",
        {"waiting": "begun", "waiting_for": "permission", "waiting_kind": "Bash"},
    )
    # The harness asks its user as if nobody had been told.
    assert (answer.stdout, answer.exit_code) == (b"", 0)


async def hooks_are_the_way_in(adapter_id: str) -> None:
    modes = {emission.request.integration_mode for item in _recorded(adapter_id) for emission in item}
    assert modes == {IntegrationMode.NATIVE_HOOK}


async def nonsense_is_refused(adapter_id: str) -> None:
    with pytest.raises(InvalidRequest):
        parse(adapter_id, b"nonsense", hook="Stop")
