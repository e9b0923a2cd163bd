"""Checks that an adapter reads its harness's calls: claimed events, in order, for the right session and frame."""

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from lifebus_adapters.conformance.examples import PRIVATE, call_of
from lifebus_adapters.conformance.subject import Subject, flat, read, readings
from lifebus_contract import (
    FRAME_EVENTS,
    Emission,
    EventClaim,
    FrameClass,
    LifebusError,
    LifecycleEvent,
    SupportState,
    encode_json,
    validate,
)
from lifebus_contract.fields import MAX_MESSAGE_BYTES

_ORDER: Final = {event: place for place, event in enumerate(LifecycleEvent)}
_SPOOLED_S: Final = 1_800_000_100
_SPOOLED: Final = "spooled_late"
_UNCLAIMED: Final = EventClaim(support=SupportState.UNAVAILABLE)


def events_are_the_expected_ones(subject: Subject) -> Iterator[str]:
    """Every example yields exactly the events that it stands for, and the hook is known by its name."""
    for example, _, reading in readings(subject):
        found = [emission.request.event.value for emission in reading.emissions]
        if found != [event.value for event in example.yields]:
            yield f"{example.title} yields {found or 'nothing'}"
        if reading.hook != example.hook:
            yield f"{example.title} is taken for another hook"


def silent_hooks_yield_nothing(subject: Subject) -> Iterator[str]:
    """An example that stands for no event yields none."""
    for example, _, reading in readings(subject):
        if not example.yields and reading.emissions:
            yield f"{example.title} means nothing and yields {len(reading.emissions)} events"


def events_are_claimed(subject: Subject) -> Iterator[str]:
    """No call yields what the manifest does not claim, in another's name, or by a mode that it does not claim."""
    manifest = subject.manifest
    for example, _, reading in readings(subject):
        for emission in reading.emissions:
            request = emission.request
            claim = manifest.lifecycle_events.get(request.event, _UNCLAIMED)
            if claim.support is SupportState.UNAVAILABLE:
                yield f"{example.title} yields `{request.event.value}`, which the manifest does not claim"
            elif request.integration_mode not in claim.modes:
                yield f"{example.title}: mode `{request.integration_mode.value}` is not claimed for the event"
            if (request.adapter_id, request.adapter_version) != (manifest.adapter_id, manifest.adapter_version):
                yield f"{example.title} speaks for adapter `{request.adapter_id}` {request.adapter_version}"


def events_share_an_invocation(subject: Subject) -> Iterator[str]:
    """All events of one call have one invocation id, and no two calls share one."""
    seen: set[str] = set()
    for example, _, reading in readings(subject):
        found = {emission.request.invocation_id for emission in reading.emissions}
        if len(found) > 1:
            yield f"{example.title} has {len(found)} invocation ids"
        if found & seen:
            yield f"{example.title} has the invocation id of another call"
        seen |= found


def events_are_in_causal_order(subject: Subject) -> Iterator[str]:
    """Events are in causal order: starting before started, opening before opened, ending before ended."""
    for example, _, reading in readings(subject):
        places = [_ORDER[emission.request.event] for emission in reading.emissions]
        if places != sorted(set(places)):
            yield f"{example.title} yields its events out of order, or one twice"


def messages_are_valid(subject: Subject) -> Iterator[str]:
    """Every emission is valid by the contract and fits into a message."""
    for example, _, reading in readings(subject):
        for emission in reading.emissions:
            try:
                validate(emission, Emission)
            except LifebusError as fault:
                yield f"{example.title}: {fault.detail}"
                continue
            if len(encode_json(emission)) > MAX_MESSAGE_BYTES:
                yield f"{example.title}: an emission is too large for a message"


def keys_are_distinct_and_stable(subject: Subject) -> Iterator[str]:
    """Every event has an idempotency key: no two the same, and the same again when the call comes again."""
    seen: dict[str, str] = {}
    for example, call, reading in readings(subject):
        keys = [emission.request.idempotency_key for emission in reading.emissions]
        again = read(subject, call).emissions
        if keys != [emission.request.idempotency_key for emission in again]:
            yield f"{example.title} gets another key when it comes again"
        for key in keys:
            if key is None:
                yield f"{example.title} yields an event without a key"
            elif key in seen:
                yield f"{example.title} has a key of {seen[key]}"
            else:
                seen[key] = example.title


def frames_are_nested_rightly(subject: Subject) -> Iterator[str]:
    """Frame events name their frame, sub-agents are nested in a parent, and what ends was opened under the same id."""
    opened: set[str] = set()
    ended: dict[str, str] = {}
    for example, _, reading in readings(subject):
        wanted = FrameClass.SUBCALL if example.subagent else FrameClass.TOP_LEVEL
        for emission in reading.emissions:
            frame = emission.request.frame_context
            if emission.request.event not in FRAME_EVENTS:
                continue
            if frame is None or frame.frame_class is not wanted:
                yield f"{example.title}: `{emission.request.event.value}` needs a frame of class {wanted.value}"
                continue
            if frame.parent_frame_id == frame.frame_id:
                yield f"{example.title}: a frame is its own parent"
            if emission.request.event is LifecycleEvent.FRAME_ENDED:
                ended[flat(frame)] = example.title
            else:
                opened.add(flat(frame))
    yield from (f"{title} ends a frame that no example opens" for frame, title in ended.items() if frame not in opened)


def identity_is_as_claimed(subject: Subject) -> Iterator[str]:
    """Session, run and task ids are there where the manifest says so, and only there."""
    identity = subject.manifest.session_identity
    requests = [(example, item.request) for example, _, found in readings(subject) for item in found.emissions]
    for example, request in requests:
        if (request.harness_session_id is None) is not example.sessionless:
            yield f"{example.title} {'names a' if example.sessionless else 'names no'} session"
    for name in ("harness_session_id", "harness_run_id", "harness_task_id"):
        claimed = identity is not None and getattr(identity, name) is not SupportState.UNAVAILABLE
        if requests and claimed is not any(getattr(request, name) is not None for _, request in requests):
            yield f"`{name}` is {'claimed and never' if claimed else 'not claimed and yet'} there"


def private_text_stays_behind(subject: Subject) -> Iterator[str]:
    """Prompts, answers and tool data of the payloads appear nowhere in what the adapter returns."""
    for example, _, reading in readings(subject):
        texts = [*map(flat, reading.emissions), *map(flat, reading.facts), reading.transcript or "", reading.hook]
        if any(PRIVATE in text for text in texts):
            yield f"{example.title} passes private text on"


def same_call_gives_the_same(subject: Subject) -> Iterator[str]:
    """The same call read twice means the same, and the call itself is not changed."""
    for number, (example, call, reading) in enumerate(readings(subject)):
        fresh = call_of(example, call.adapter_id, number)
        if call != fresh:
            yield f"{example.title}: the call itself was changed"
        if read(subject, fresh) != reading:
            yield f"{example.title} is read differently the second time"


def late_calls_are_marked(subject: Subject) -> Iterator[str]:
    """A call that comes late, from the spool, means the same and bears the warning `spooled_late`."""
    for example, call, reading in readings(subject):
        # The same call id: a call from the spool is the same call.
        spooled = read(subject, structs.replace(call, spooled_at_epoch_s=_SPOOLED_S))
        if [emission.request for emission in spooled.emissions] != [emission.request for emission in reading.emissions]:
            yield f"{example.title} means something else when it comes late"
        if not all(_SPOOLED in [warning.code for warning in emission.warnings] for emission in spooled.emissions):
            yield f"{example.title} does not say that it came late"
