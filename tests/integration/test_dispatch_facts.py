"""What a callback client gets of an event beside the request: numbers and capabilities (docs/contract.md 5.6)."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import anyio
import jsonschema
import pytest
from msgspec import structs, to_builtins

import lifebus
from integration.test_wire_document import call_hook
from lifebus_adapters import ADAPTERS
from lifebus_broker.routing.clients import ClientHandler
from lifebus_broker.routing.negotiation import negotiate
from lifebus_broker.transitions import transition
from lifebus_contract import (
    AdapterManifest,
    CallbackResponse,
    CapabilityRequest,
    ConformanceLevel,
    DispatchEnvelope,
    Emission,
    InvalidRequest,
    LifecycleEvent,
    RegisteredAdapter,
    RequirementLevel,
    SupportState,
    decode_json,
    validate,
)
from lifebus_supervisor.configuration.settings import ClientSettings
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.daemon.lifecycle import running
from support.golden import golden
from support.integration.following import recorded, until
from support.integration.serving import content, serving
from support.integration.stdio_peers import near_peer
from support.paths import REPOSITORY
from support.patience import PATIENCE_MS
from support.running import connected, running_bus, settings_in, short_directory
from support.transports.children import ANSWER, nothing_left

Protocol = Literal["oneshot", "jsonl"]
PRESSURE, DEGRADED = LifecycleEvent.CONTEXT_PRESSURE_OBSERVED, LifecycleEvent.CAPABILITY_DEGRADED
NUMBERS: dict[str, str | int | bool | None] = {
    "context_pressure": "high",
    "context_used_pct": 84,
    "context_used_tokens": 840,
    "context_window_tokens": 1_000,
}
SCHEMA = REPOSITORY / "broker/lifebus_contract/schemas/dispatch.json"


@cache
def schema() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))


def pressure(**fields: Any) -> Emission:
    return Emission(request=lifebus.make_request(PRESSURE, "codex", session="s1", **fields), telemetry=NUMBERS)


def report() -> Emission:
    change = transition(
        "context_pressure", SupportState.NATIVE, SupportState.UNAVAILABLE, at_epoch_s=7, evidence="two polls"
    )
    request = lifebus.make_request(DEGRADED, "codex", session="s1")
    return Emission(request=request, degradations=(change,), telemetry={"cause": "telemetry_missing"})


def changes_in(envelope: DispatchEnvelope) -> list[tuple[str, str, str, str]]:
    return [
        (one.capability, one.previous_support.value, one.current_support.value, one.evidence)
        for one in envelope.degradations
    ]


LOST = [("context_pressure", "native", "unavailable", "two polls")]


@asynccontextmanager
async def writing(
    directory: Path,
    protocol: Protocol,
    *,
    events: tuple[LifecycleEvent, ...] = (PRESSURE, DEGRADED),
    background: bool = False,
) -> AsyncIterator[Daemon]:
    """A broker with a command client that writes down each line it is asked with."""
    book = directory / "asked.jsonl"
    script = f"while read -r line; do printf '%s\\n' \"$line\" >> {book}; echo '{ANSWER}'; done"
    client = ClientSettings(
        client_id="writer",
        command=("/bin/sh", "-c", script),
        events=events,
        background=background,
        protocol=protocol,
        workers=1,
        deadline_ms=PATIENCE_MS,
    )
    settings = structs.replace(settings_in(directory, hook_answer_ms=PATIENCE_MS), clients=(client,))
    async with nothing_left(), running(settings) as daemon:
        yield daemon


def keeping() -> tuple[list[DispatchEnvelope], ClientHandler]:
    """A client that agrees to everything, and what it was asked."""
    asked: list[DispatchEnvelope] = []

    async def keep(dispatch: DispatchEnvelope) -> CallbackResponse:
        asked.append(dispatch)
        return CallbackResponse.ok()

    return asked, keep


async def test_a_worker_gets_numbers_and_the_capability_that_changed() -> None:
    asked, keep = keeping()
    async with (
        running_bus() as daemon,
        connected(daemon, "worker") as worker,
        connected(daemon) as bus,
        serving(worker, keep, [PRESSURE, DEGRADED]),
    ):
        await bus.emit([pressure(metadata={"mine": 1}), report()])
    first, second = asked
    assert (first.telemetry, first.degradations) == (NUMBERS, ())
    assert first.request.metadata["mine"] == 1
    assert (second.telemetry, changes_in(second)) == ({"cause": "telemetry_missing"}, LOST)
    for one in asked:
        schema().validate(to_builtins(one))


@pytest.mark.parametrize("protocol", ["oneshot", "jsonl"])
async def test_a_command_gets_the_same_in_a_document_of_the_published_schema(protocol: Protocol) -> None:
    with short_directory() as directory:
        async with writing(directory, protocol) as daemon, connected(daemon) as bus:
            results = await bus.emit([pressure(), report()])
        lines = (directory / "asked.jsonl").read_text().splitlines()
    receipts = [one for result in results for one in result.receipts if one.client_id == "writer"]
    assert [one.status for one in receipts] == ["observed"] * 2
    first, second = (json.loads(line) for line in lines)
    assert first["request"]["metadata"]["lifebus"].pop("traceparent").startswith("00-")
    assert first["request"]["metadata"] == {"lifebus": {"telemetry": NUMBERS}}
    (change,) = second["request"]["metadata"]["lifebus"]["degradations"]
    assert (change["capability"], change["previous_support"], change["current_support"]) == LOST[0][:3]
    for line in lines:
        schema().validate(json.loads(line))
        assert decode_json(line, DispatchEnvelope)


async def test_a_peer_of_stdio_gets_the_same() -> None:
    registration = {"client_id": "editor", "events": ["capability.degraded"], "deadline_ms": 1}
    async with running_bus() as daemon, near_peer(daemon) as peer, connected(daemon) as bus:
        await peer.ask("serve", registration)
        await bus.emit(report())
        asked = await peer.wait(lambda message: "envelope" in message)
    schema().validate(asked["envelope"])
    (change,) = asked["envelope"]["request"]["metadata"]["lifebus"]["degradations"]
    assert (change["capability"], change["current_support"]) == ("context_pressure", "unavailable")


async def test_what_a_harness_says_before_it_compacts_reaches_the_clients_as_its_receipt_has_it() -> None:
    facts = {"hook_event_name": "PreCompact", "session_id": "s1", "trigger": "auto", "custom_instructions": ""}
    stdin = json.dumps(facts | {"transcript_path": None, "cwd": "/"}).encode()
    hook = {"v": 1, "call_id": "c-1", "adapter": "claude", "hook": "PreCompact", "cwd": "/", "env": {}}
    with short_directory() as directory:
        async with writing(directory, "oneshot") as daemon:
            call = hook | {"size": len(stdin)}
            await anyio.to_thread.run_sync(call_hook, daemon.settings.runtime_dir, call, stdin)
            receipts = await recorded(daemon)
        (line,) = (directory / "asked.jsonl").read_text().splitlines()
    asked = decode_json(line, DispatchEnvelope).telemetry
    (receipt,) = [one for one in receipts if one.client_id == "writer"]
    assert asked.items() <= receipt.telemetry_summary.items()
    assert asked["source_hook"] == "PreCompact"


async def test_nobody_can_forge_what_lifebus_knows() -> None:
    asked, keep = keeping()
    forged = {"lifebus": {"telemetry": {"context_used_pct": 99}}, "other": True}
    alone, counted = (lifebus.make_request(PRESSURE, "codex", session="s1", metadata=forged) for _ in range(2))
    async with (
        running_bus() as daemon,
        connected(daemon, "worker") as worker,
        connected(daemon) as bus,
        serving(worker, keep, [PRESSURE]),
    ):
        await bus.emit([alone, Emission(request=counted, telemetry={"context_used_pct": 1})])
    assert [one.telemetry for one in asked] == [{}, {"context_used_pct": 1}]
    assert [one.request.metadata["other"] for one in asked] == [True, True]


async def test_a_worker_is_asked_about_a_gap_that_the_bus_finds_itself() -> None:
    asked, keep = keeping()
    async with (
        running_bus() as daemon,
        connected(daemon, "worker") as worker,
        connected(daemon) as bus,
        serving(worker, keep, [LifecycleEvent.RECEIPT_GAP_DETECTED]),
    ):
        for number in (1, 5, 5, 6):
            await bus.emit(lifebus.make_request("session.started", "codex", session="s1", sequence=number))
        stored = await recorded(daemon)
    (dispatch,) = asked
    facts = {"missing_first": 2, "missing_last": 4}
    assert (dispatch.request.event, dispatch.request.harness_session_id) == ("receipt.gap_detected", "s1")
    assert (dispatch.telemetry, dispatch.request.sequence) == (facts, 5)
    schema().validate(to_builtins(dispatch))
    fact, own = [one for one in stored if one.event is LifecycleEvent.RECEIPT_GAP_DETECTED]
    assert (own.client_id, own.parent_receipt_id, own.event_id) == ("worker", fact.receipt_id, fact.event_id)
    assert (fact.parent_receipt_id, fact.telemetry_summary) == (None, facts | {"harness_sequence": 5})
    assert own.telemetry_summary["missing_first"] == 2


@pytest.mark.parametrize("background", [False, True])
async def test_a_command_is_asked_about_a_gap(background: bool) -> None:
    gap = (LifecycleEvent.RECEIPT_GAP_DETECTED,)
    with short_directory() as directory:
        async with writing(directory, "oneshot", events=gap, background=background) as daemon, connected(daemon) as bus:
            for number in (1, 3):
                await bus.emit(lifebus.make_request("session.started", "codex", session="s1", sequence=number))
            await until(lambda: not daemon.bus.dispatches)
        (line,) = (directory / "asked.jsonl").read_text().splitlines()
    assert decode_json(line, DispatchEnvelope).telemetry == {"missing_first": 2, "missing_last": 2}


async def test_whoever_misspells_an_event_is_told_which_was_meant() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        with pytest.raises(InvalidRequest, match=r"`session\.start`; did you mean `session\.started`\?") as refused:
            await bus.serve(["session.start"], content)
        assert (refused.value.code, await bus.clients()) == ("unknown_event", [])
    with pytest.raises(InvalidRequest, match="known are session"):
        lifebus.make_request("nothing", "codex")


async def test_nobody_is_registered_for_the_announcement_of_receipts() -> None:
    pointer = "follow the receipts instead"
    events = ["session.started", "receipt.emitted"]
    async with running_bus() as daemon, near_peer(daemon) as peer, connected(daemon) as bus:
        answer = await peer.ask("serve", {"client_id": "editor", "events": events})
        with pytest.raises(ValueError, match=pointer):
            await bus.serve(events, content)
        with pytest.raises(lifebus.LifebusError, match=pointer):
            daemon.bus.register("function", [LifecycleEvent.RECEIPT_EMITTED], content)
        assert (await bus.clients(), daemon.bus.clients.all()) == ([], ())
    assert pointer in answer["refused"]["detail"]
    with pytest.raises(ValueError, match=pointer):
        ClientSettings(client_id="writer", command=("true",), events=(LifecycleEvent.RECEIPT_EMITTED,))


@pytest.mark.parametrize("adapter_id", ADAPTERS)
async def test_what_nobody_is_asked_about_is_not_to_be_had(adapter_id: str) -> None:
    needs = CapabilityRequest(capability="event:receipt.emitted", level=RequirementLevel.REQUIRED)
    async with running_bus() as daemon, connected(daemon) as bus:
        found = await bus.negotiate(adapter_id, [needs])
    assert (found.outcome, found.failure_class) == ("unsupported", "capability_unsupported")
    assert "follow the receipts instead" in found.outcomes[0].reason


def test_a_third_partys_claim_of_it_counts_for_nothing() -> None:
    claims = {"receipt.emitted": {"support": "native", "modes": ["native_hook"]}}
    manifest = validate(golden("manifest", lifecycle_events=claims), AdapterManifest)
    registered = RegisteredAdapter(manifest=manifest, conformance=ConformanceLevel.PRE_CONFORMANCE)
    needs = CapabilityRequest(capability="event:receipt.emitted", level=RequirementLevel.REQUIRED)
    assert negotiate(registered, [needs]).outcome == "unsupported"
