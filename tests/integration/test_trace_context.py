"""The span of a dispatch: what a client is told of it is what the exporter makes of the client's receipt."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import lifebus
from integration.test_dispatch_facts import Protocol, keeping, pressure, report, writing
from lifebus_broker.trace_context import dispatch_span, traceparent, turn_trace
from lifebus_contract import (
    CallbackRequest,
    DispatchEnvelope,
    Emission,
    FrameClass,
    FrameContext,
    InvalidRequest,
    LifecycleEvent,
    Receipt,
    decode_json,
    encode_json,
)
from lifebus_contract.ids import IdSource, time_of
from lifebus_supervisor.configuration.settings import ClientSettings
from lifebus_supervisor.daemon.lifecycle import running
from support.integration.serving import serving
from support.patience import PATIENCE_S
from support.running import connected, running_bus, settings_in, short_directory
from support.transports.children import ANSWER, nothing_left

OPENING = LifecycleEvent.FRAME_OPENING


def told(receipts: Sequence[Receipt]) -> list[str]:
    """Return the spans of the dispatches that receipts of clients tell of."""
    return [
        traceparent(dispatch_span(one, one.telemetry_summary, one.client_id))
        for one in receipts
        if "emitter" in one.telemetry_summary
    ]


def opening(frame: str, parent: str | None = None) -> CallbackRequest:
    frame_class = FrameClass.TOP_LEVEL if parent is None else FrameClass.SUBCALL
    context = FrameContext(frame_id=frame, frame_class=frame_class, parent_frame_id=parent)
    return lifebus.make_request(OPENING, "codex", session="s1", frame=context)


async def test_each_worker_gets_the_span_of_its_own_dispatch() -> None:
    (first, keep_first), (second, keep_second) = keeping(), keeping()
    emissions: list[Emission | CallbackRequest] = [
        opening("turn-1"),
        opening("agent-1", "turn-1"),
        opening("turn-2"),
        pressure(),
    ]
    events = [OPENING, LifecycleEvent.CONTEXT_PRESSURE_OBSERVED]
    async with (
        running_bus() as daemon,
        connected(daemon, "first") as one,
        connected(daemon, "second") as other,
        connected(daemon) as bus,
        serving(one, keep_first, events),
        serving(other, keep_second, events),
    ):
        results = await bus.emit(emissions)
    receipts = [receipt for result in results for receipt in result.receipts]
    asked = [dispatch.traceparent for dispatch in [*first, *second]]
    assert sorted(told(receipts)) == sorted(str(one) for one in asked)
    assert len(set(asked)) == 8
    traces = [str(dispatch.traceparent).split("-")[1] for dispatch in first]
    # A sub-agent is asked about in the trace of its turn; a session has a trace of its own.
    assert traces[:3] == [turn_trace("codex", "s1", name).hex() for name in ("turn-1", "turn-1", "turn-2")]
    assert len(set(traces)) == 3


@pytest.mark.parametrize("protocol", ["oneshot", "jsonl"])
async def test_a_command_reads_it_in_the_document(protocol: Protocol) -> None:
    with short_directory() as directory:
        async with writing(directory, protocol) as daemon, connected(daemon) as bus:
            results = await bus.emit([pressure(), report()])
        lines = (directory / "asked.jsonl").read_text().splitlines()
    asked = [json.loads(line)["request"]["metadata"]["lifebus"]["traceparent"] for line in lines]
    assert told([receipt for result in results for receipt in result.receipts]) == asked


async def test_a_command_finds_it_in_its_environment_and_no_other_one() -> None:
    with short_directory() as directory:
        script = f"cat > /dev/null; echo $TRACEPARENT >> {directory}/spans; echo '{ANSWER}'"
        client = ClientSettings(
            client_id="writer",
            command=("/bin/sh", "-c", script),
            events=(OPENING,),
            environment=("TRACEPARENT",),
            deadline_ms=int(PATIENCE_S * 1_000),
        )
        async with (
            nothing_left(),
            running(structs.replace(settings_in(directory), clients=(client,))) as daemon,
            connected(daemon) as bus,
        ):
            results = [await bus.emit(opening(name)) for name in ("turn-1", "turn-2")]
        spans = (directory / "spans").read_text().split()
    assert told([receipt for result in results for receipt in result.receipts]) == spans


def test_what_an_emitter_forges_is_refused_or_replaced() -> None:
    forged = pressure(metadata={"lifebus": {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}})
    assert DispatchEnvelope.of(forged).traceparent is None
    envelope = DispatchEnvelope.of(pressure(), "00-" + "a" * 32 + "-" + "b" * 16 + "-01")
    assert decode_json(encode_json(envelope), DispatchEnvelope).traceparent == envelope.traceparent
    assert envelope.as_emission().request.metadata == {}
    with pytest.raises(InvalidRequest, match="traceparent"):
        decode_json(encode_json(envelope).replace(b"00-aaaa", b"zz-aaaa"), DispatchEnvelope)


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_an_id_says_when_it_was_made(at_ms: int, entropy: bytes) -> None:
    assert time_of(IdSource(lambda: at_ms, lambda _: entropy).make("lfr_")) == at_ms


@pytest.mark.parametrize("text", ["", "lfr_", "turn-1", "lfr_" + "U" * 26, "lfr_" + "1" * 25])
def test_an_id_of_somebody_else_says_no_time(text: str) -> None:
    assert time_of(text) is None
