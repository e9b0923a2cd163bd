"""Adapters that break one rule each: what the conformance suite must catch."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import structs

from lifebus_adapters import Adapter, ContextDelivery, HookAnswer, HookCall, HookReading
from lifebus_adapters.conformance import Example, Subject
from lifebus_adapters.conformance.builtin import builtin_subject
from lifebus_adapters.shared.telemetry import RowQuery, SourceSpec
from lifebus_contract import (
    Emission,
    EventClaim,
    FrameClass,
    FrameContext,
    IdSource,
    InvalidRequest,
    LifebusError,
    LifecycleEvent,
    ManifestPlacementClass,
    PlacementClaim,
    RegisteredAdapter,
    SupportState,
)

Read = Callable[[HookCall, IdSource], HookReading]
Render = Callable[[HookCall, Sequence[ContextDelivery]], HookAnswer]


class Variant:
    """An adapter that is like another one but for what is given."""

    def __init__(
        self,
        inner: Adapter,
        *,
        read: Read | None = None,
        render: Render | None = None,
        registered: RegisteredAdapter | None = None,
        sources: Sequence[SourceSpec] | None = None,
    ) -> None:
        self.read = read or inner.read
        self.render = render or inner.render
        self.session_of = inner.session_of
        self._registered = registered or inner.registered
        self._sources = inner.sources if sources is None else sources

    @property
    def registered(self) -> RegisteredAdapter:
        return self._registered

    @property
    def sources(self) -> Sequence[SourceSpec]:
        return self._sources


GOOD = builtin_subject("codex")
CODEX = GOOD.adapter


def _with(**changes: Any) -> Subject:
    return structs.replace(GOOD, adapter=Variant(CODEX, **changes))


def _manifest(**changes: Any) -> Subject:
    manifest = structs.replace(GOOD.manifest, **changes)
    return _with(registered=structs.replace(CODEX.registered, manifest=manifest))


def _examples(keep: Callable[[Example], bool]) -> Subject:
    return structs.replace(GOOD, examples=tuple(filter(keep, GOOD.examples)))


def _reading(change: Callable[[HookReading, HookCall], HookReading]) -> Subject:
    return _with(read=lambda call, ids: change(CODEX.read(call, ids), call))


def _emissions(change: Callable[[Emission, int], Emission]) -> Subject:
    def changed(reading: HookReading, _: HookCall) -> HookReading:
        found = tuple(change(emission, number) for number, emission in enumerate(reading.emissions))
        return structs.replace(reading, emissions=found)

    return _reading(changed)


def _requests(change: Callable[[int], dict[str, Any]]) -> Subject:
    return _emissions(lambda one, number: structs.replace(one, request=structs.replace(one.request, **change(number))))


def _telemetry(facts: Callable[[HookCall], dict[str, Any]]) -> Subject:
    def changed(reading: HookReading, call: HookCall) -> HookReading:
        emissions = tuple(structs.replace(one, telemetry={**one.telemetry, **facts(call)}) for one in reading.emissions)
        return structs.replace(reading, emissions=emissions)

    return _reading(changed)


def _forgiving(codes: set[str]) -> Subject:
    """Take what is refused with one of these codes for a silent hook."""

    def read(call: HookCall, ids: IdSource) -> HookReading:
        try:
            return CODEX.read(call, ids)
        except InvalidRequest as fault:
            if fault.code not in codes:
                raise
            return HookReading(hook=call.hook)

    return _with(read=read)


def _flattened(emission: Emission, _: int) -> Emission:
    frame = emission.request.frame_context
    if frame is None:
        return emission
    flat = FrameContext(frame_id=frame.frame_id, frame_class=FrameClass.TOP_LEVEL)
    return structs.replace(emission, request=structs.replace(emission.request, frame_context=flat))


def _talkative(reading: HookReading, call: HookCall) -> HookReading:
    stop = next(example for example in GOOD.examples if example.hook == "Stop")
    said = structs.replace(call, stdin=msgspec.json.encode(stop.payload))
    return structs.replace(reading, emissions=reading.emissions or CODEX.read(said, IdSource(int, bytes)).emissions)


def _counting() -> Subject:
    calls: list[HookCall] = []

    def facts(call: HookCall) -> dict[str, Any]:
        calls.append(call)
        return {"calls": len(calls)}

    return _telemetry(facts)


def _choking(call: HookCall, ids: IdSource) -> HookReading:
    if len(call.stdin) > 500_000:
        raise MemoryError
    return CODEX.read(call, ids)


def _halving(call: HookCall, ids: IdSource) -> HookReading:
    """Yield the first event where the second cannot be yielded."""
    reading = CODEX.read(call, ids)
    odd = b"lifebus_extra" in call.stdin
    return structs.replace(reading, emissions=reading.emissions[:1]) if odd else reading


def _resentful() -> Subject:
    offended: list[bool] = []

    def read(call: HookCall, ids: IdSource) -> HookReading:
        if offended and b"echo PRIVATE" in call.stdin:
            raise InvalidRequest("never again")
        try:
            return CODEX.read(call, ids)
        except InvalidRequest:
            offended.append(True)
            raise

    return _with(read=read)


def _ignoring_size(call: HookCall, ids: IdSource) -> HookReading:
    return HookReading(hook=call.hook) if call.oversized else CODEX.read(call, ids)


def _answering(change: Callable[[HookAnswer], HookAnswer]) -> Subject:
    return _with(render=lambda call, deliveries: change(CODEX.render(call, deliveries)))


def _one_key_more(answer: HookAnswer) -> HookAnswer:
    if not answer.stdout:
        return answer
    return HookAnswer(stdout=msgspec.json.encode({**msgspec.json.decode(answer.stdout), "lifebus": True}))


def _cutting(call: HookCall, deliveries: Sequence[ContextDelivery]) -> HookAnswer:
    try:
        return CODEX.render(call, deliveries)
    except LifebusError:
        (delivery,) = deliveries
        short = structs.replace(delivery.payload, body=(delivery.payload.body or "")[:-1])
        return CODEX.render(call, [structs.replace(delivery, payload=short)])


class _Brittle:
    """A reader that trusts what it is given, of either kind."""

    def queries(self) -> Sequence[RowQuery]:
        return [RowQuery(sql="SELECT 1")]

    def read(self, *given: Any) -> Sequence[Any]:
        return [msgspec.json.decode(given[-1])["type"]] if len(given) == 1 else [int(given[1][0][0])]


def _source(form: Any) -> Subject:
    source = structs.replace(CODEX.sources[0], form=form, make_reader=lambda *_: _Brittle())
    return _with(sources=[source])


def _long_status() -> Subject:
    claude = builtin_subject("claude")
    shown = Variant(claude.adapter, render=lambda *_: HookAnswer(stdout=b"two\nlines"))
    return structs.replace(claude, adapter=shown)


_OPENING, _ENDING = LifecycleEvent.FRAME_OPENING, LifecycleEvent.SESSION_ENDING
_EVENTS = GOOD.manifest.lifecycle_events
_SLOTS = GOOD.manifest.placement
_TOOL = ManifestPlacementClass.TOOL_RESULT
_PRE = ManifestPlacementClass.PRE_SESSION

BROKEN: dict[str, Callable[[], Subject]] = {
    "manifest.is_valid": lambda: _manifest(adapter_id=""),
    "manifest.agrees_with_itself": lambda: _manifest(
        placement={**_SLOTS, _TOOL: PlacementClaim(support=SupportState.UNAVAILABLE, max_bytes=1)}
    ),
    "manifest.every_hook_has_an_example": lambda: _examples(lambda example: example.hook != "PreToolUse"),
    "manifest.every_claim_has_an_example": lambda: _examples(lambda example: _ENDING not in example.yields),
    "reading.events_are_the_expected_ones": lambda: _reading(
        lambda reading, call: structs.replace(reading, emissions=reading.emissions[:1])
    ),
    "reading.silent_hooks_yield_nothing": lambda: _reading(_talkative),
    "reading.events_are_claimed": lambda: _manifest(
        lifecycle_events={**_EVENTS, _OPENING: EventClaim(support=SupportState.UNAVAILABLE)}
    ),
    "reading.events_share_an_invocation": lambda: _requests(lambda number: {"invocation_id": f"inv_{number}"}),
    "reading.events_are_in_causal_order": lambda: _reading(
        lambda reading, _: structs.replace(reading, emissions=reading.emissions[::-1])
    ),
    "reading.messages_are_valid": lambda: _requests(lambda _: {"event_id": ""}),
    "reading.keys_are_distinct_and_stable": lambda: _requests(lambda number: {"idempotency_key": f"key-{number}"}),
    "reading.frames_are_nested_rightly": lambda: _emissions(_flattened),
    "reading.identity_is_as_claimed": lambda: _requests(lambda _: {"harness_session_id": None}),
    "reading.private_text_stays_behind": lambda: _telemetry(lambda call: {"payload": call.stdin.decode()[:1000]}),
    "reading.same_call_gives_the_same": _counting,
    "reading.late_calls_are_marked": lambda: _emissions(lambda one, _: structs.replace(one, warnings=())),
    "hostile.cut_off_payloads_are_refused": lambda: _forgiving({"malformed"}),
    "hostile.nonsense_is_refused": lambda: _forgiving({"wrong_type"}),
    "hostile.unknown_hooks_are_refused": lambda: _forgiving({"unknown_hook"}),
    "hostile.oversized_payloads_are_refused": lambda: _with(read=_ignoring_size),
    "hostile.large_payloads_do_no_harm": lambda: _with(read=_choking),
    "hostile.strange_values_do_no_harm": lambda: _with(read=_halving),
    "hostile.nothing_hostile_is_remembered": _resentful,
    "rendering.no_delivery_means_silence": lambda: _with(render=lambda *_: HookAnswer(stdout=b"{}")),
    "rendering.shown_text_is_one_short_line": _long_status,
    "rendering.deaf_hooks_get_nothing": lambda: _answering(lambda answer: HookAnswer(stdout=answer.stdout or b"{}")),
    "rendering.slots_are_claimed": lambda: _manifest(
        placement={**_SLOTS, _PRE: PlacementClaim(support=SupportState.UNAVAILABLE)}
    ),
    "rendering.answers_are_exact": lambda: _answering(_one_key_more),
    "rendering.awkward_text_arrives_whole": lambda: _answering(
        lambda answer: HookAnswer(stdout=answer.stdout.decode().encode("ascii", "replace"))
    ),
    "rendering.limits_are_kept": lambda: _with(render=_cutting),
    "telemetry.records_are_read_or_refused": lambda: _source("lines"),
    "telemetry.databases_are_read_or_refused": lambda: _source("database"),
}
"""By the name of the check that must catch it."""
