"""Proofs of what the v1 manifests claim about telemetry, pressure, degradation and the modes beside native hooks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import structs

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.telemetry import Compacted, Fact, Usage, WindowKnown
from lifebus_broker.state.pressure import Thresholds, next_level
from lifebus_contract import (
    CallbackRequest,
    Emission,
    IntegrationMode,
    LifecycleEvent,
    PressureLevel,
    Receipt,
    ReceiptStatus,
    SupportState,
    validate,
)
from lifebus_supervisor.tailing.events import FileUpdate
from support.adapters.calls import CAPTURE_FILES, captured, events, hooks_of, ids
from support.adapters.hook_bus import hook_bus, receipts
from support.adapters.proofs import PROMPT, START, STOP, Proof
from support.adapters.telemetry_facts import TELEMETRY_FILES, facts_of, harness_of, records_of, source_of
from support.supervisor.supervised import HARNESS, SupervisedBus, supervised


def _facts(path: Path) -> list[Fact]:
    return facts_of(harness_of(path), str(path), records_of(path))


def _facts_of_files(adapter_id: str) -> list[Fact]:
    return [fact for path in TELEMETRY_FILES if harness_of(path) == adapter_id for fact in _facts(path)]


def _facts_of_hooks(adapter_id: str) -> list[Fact]:
    files = [path for path in CAPTURE_FILES if path.parent.parent.name == adapter_id]
    calls = [call for path in files for call, _ in captured(path)]
    return [fact for call in calls for fact in ADAPTERS[adapter_id].read(call, ids()).facts]


async def levels_come_from_the_file(adapter_id: str) -> None:
    """Each token count of the recorded files has its window; supervision reports each change of level."""
    found = [fact for fact in _facts_of_files(adapter_id) if isinstance(fact, Usage)]
    levels = {next_level(None, fact.used_tokens, fact.window_tokens, Thresholds()) for fact in found}
    assert levels == {PressureLevel.LOW, PressureLevel.MODERATE, PressureLevel.HIGH}
    assert all(fact.used_source and fact.window_source for fact in found)
    async with _supervised() as rig:
        await rig.hook(adapter_id, START)
        pressed = [one for fact in found for one in await _pressure_of(rig, adapter_id, fact)]
    assert {one.telemetry_summary["context_pressure"] for one in pressed} == {"low", "moderate", "high"}
    assert {one.integration_mode for one in pressed} == {IntegrationMode.TELEMETRY_ONLY}
    assert all(isinstance(one.telemetry_summary["context_used_pct"], int) for one in pressed)


async def _pressure_of(rig: SupervisedBus, adapter_id: str, fact: Usage) -> list[Receipt]:
    rig.news(adapter_id, START["session_id"], structs.replace(fact, session=START["session_id"]))
    return [one for one in await rig.tick() if one.event is LifecycleEvent.CONTEXT_PRESSURE_OBSERVED]


@asynccontextmanager
async def _supervised() -> AsyncIterator[SupervisedBus]:
    with TemporaryDirectory() as folder:
        async with supervised(Path(folder)) as rig:
            yield rig


async def levels_need_a_known_window(adapter_id: str) -> None:
    """Each answer has its tokens; an unknown model's window comes from the status line or by the user alone."""
    path = next(path for path in TELEMETRY_FILES if harness_of(path) == adapter_id)
    strange = [record.replace(b"claude-opus-5-5", b"claude-unheard-of") for record in records_of(path)]
    found = [fact for fact in facts_of(adapter_id, str(path), strange) if isinstance(fact, Usage)]
    assert found
    assert {next_level(None, fact.used_tokens, fact.window_tokens, Thresholds()) for fact in found} == {None}
    variable = {"LIFEBUS_CLAUDE_CONTEXT_WINDOW_TOKENS": "14020"}
    said = [fact for fact in facts_of(adapter_id, str(path), strange, **variable) if isinstance(fact, Usage)]
    assert {fact.window_tokens for fact in said} == {14_020}
    await the_status_line_tells_the_window(adapter_id)


async def the_status_line_tells_the_window(adapter_id: str) -> None:
    found = _facts_of_hooks(adapter_id)
    status = [fact for fact in found if isinstance(fact, Usage) and "statusLine" in fact.used_source]
    windows: set[int | None] = {fact.window_tokens for fact in status}
    windows |= {fact.window_tokens for fact in found if isinstance(fact, WindowKnown)}
    assert windows == {1_000_000}


async def the_file_is_read(adapter_id: str) -> None:
    """The recorded sessions' files have tokens, and a compaction for each that the hooks have."""
    files = [path for path in TELEMETRY_FILES if harness_of(path) == adapter_id]
    assert files
    for path in files:
        compacted = [fact for fact in _facts(path) if isinstance(fact, Compacted)]
        session = source_of(adapter_id).session_of(str(path))
        calls = captured(next(parent / "hooks.jsonl" for parent in path.parents if (parent / "hooks.jsonl").exists()))
        by_hooks = [payload for call, payload in calls if payload.get("session_id") == session and _compacts(call)]
        assert len(compacted) == len(by_hooks)
    assert any(isinstance(fact, Usage) for fact in _facts_of_files(adapter_id))


def _compacts(call: Any) -> bool:
    return events(ADAPTERS[call.adapter_id].read(call, ids()).emissions) == ["context.compacted"]


async def losses_are_told_by_supervision(adapter_id: str) -> None:
    """No hook has it: a telemetry file that stays away takes pressure with it, and the receipt says so."""
    assert not any(LifecycleEvent.CAPABILITY_DEGRADED in rule.events for rule in hooks_of(adapter_id).rules.values())
    async with _supervised() as rig:
        for payload in (START, PROMPT, STOP):
            await rig.hook(adapter_id, payload)
        session, source = START["session_id"], source_of(adapter_id).source_id
        gone = FileUpdate(adapter_id=adapter_id, source_id=source, path="/t", session=session, problem="missing")
        rig.files.standing.append(gone)
        found = [one for one in await rig.tick(6) if one.event is LifecycleEvent.CAPABILITY_DEGRADED]
    (receipt,) = found
    lost = {change.capability: change.current_support for change in receipt.capability_degradations}
    assert lost == dict.fromkeys(("context_pressure", "event:context.pressure_observed"), SupportState.UNAVAILABLE)
    assert receipt.status is ReceiptStatus.DEGRADED


async def ticks_are_made_by_the_supervisor(adapter_id: str) -> None:
    """No hook yields a tick but to say who is waited for; supervision makes one of what it sees, and others may."""
    rules = hooks_of(adapter_id).rules.values()
    assert all(rule.waits is not None for rule in rules if LifecycleEvent.SUPERVISOR_TICK in rule.events)
    async with _supervised() as rig:
        await rig.hook(adapter_id, START)
        own = [one for one in await rig.tick() if one.event is LifecycleEvent.SUPERVISOR_TICK]
        driven = Emission(request=_request(adapter_id, "supervisor.tick", "telemetry_only"))
        (others,) = receipts(await rig.bus.emit("somebody", [driven]))
    assert [one.client_id for one in own] == ["lifebus.supervisor"]
    assert (others.event, others.status) == (LifecycleEvent.SUPERVISOR_TICK, ReceiptStatus.OBSERVED)


async def files_tell_what_hooks_do_not(adapter_id: str) -> None:
    """With the harness killed and no hook for a compaction, supervision reports both in the mode of telemetry."""
    await events_come_by(
        "telemetry_only",
        "session.starting",
        "session.started",
        "context.pressure_observed",
        "context.compacted",
        "frame.ended",
        "session.ended",
    )(adapter_id)
    session = START["session_id"]
    async with _supervised() as rig:
        for payload in (START, PROMPT):
            await rig.hook(adapter_id, payload)
        rig.news(adapter_id, session, Compacted(session=session, key="1"))
        compacted = await rig.tick(4)
        rig.dead.add(HARNESS)
        ended = await rig.tick(4)
    found = [one for one in (*compacted, *ended) if one.event is not LifecycleEvent.SUPERVISOR_TICK]
    assert [one.event.value for one in found] == ["context.compacted", "frame.ended", "session.ended"]
    assert {one.integration_mode for one in found} == {IntegrationMode.TELEMETRY_ONLY}


def events_come_by(mode: str, *names: str) -> Proof:
    async def proof(adapter_id: str) -> None:
        """Exactly these events of sessions, frames and context are claimed for the mode, and the bus records them."""
        claims = ADAPTERS[adapter_id].registered.manifest.lifecycle_events
        claimed = {event.value for event, claim in claims.items() if IntegrationMode(mode) in claim.modes}
        assert {name for name in claimed if name.startswith(("session.", "frame.", "context."))} == set(names)
        emissions = [Emission(request=_request(adapter_id, name, mode)) for name in names]
        async with hook_bus() as bus:
            recorded = receipts(await bus.bus.emit("somebody", emissions))
        assert [(receipt.event.value, receipt.integration_mode) for receipt in recorded] == [
            (name, IntegrationMode(mode)) for name in names
        ]

    return proof


def _request(adapter_id: str, event: str, mode: str) -> CallbackRequest:
    plain: dict[str, Any] = {
        "schema_version": "lifeloop.v0.2", "event": event, "event_id": f"evt_{event}", "adapter_id": adapter_id,
        "adapter_version": ADAPTERS[adapter_id].registered.manifest.adapter_version, "invocation_id": "inv_1",
        "integration_mode": mode, "harness_session_id": PROMPT["session_id"],
    }  # fmt: skip
    if event.startswith("frame."):
        plain["frame_context"] = {"frame_id": "t1", "frame_class": "top_level"}
    return validate(plain, CallbackRequest)
