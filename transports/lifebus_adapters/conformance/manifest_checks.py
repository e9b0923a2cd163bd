"""Does the manifest keep the contract, agree with itself, and have an example for everything that comes by hooks?"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from lifebus_adapters.conformance.examples import PRIVATE
from lifebus_adapters.conformance.subject import Subject, flat
from lifebus_contract import (
    AdapterManifest,
    LifebusError,
    LifecycleEvent,
    PlacementClass,
    SupportState,
    decode_json,
    encode_json,
)

_BROKERS_OWN: Final = frozenset(
    {
        LifecycleEvent.SUPERVISOR_TICK,
        LifecycleEvent.CAPABILITY_DEGRADED,
        LifecycleEvent.RECEIPT_EMITTED,
        LifecycleEvent.RECEIPT_GAP_DETECTED,
    }
)
_BY_HOOKS: Final = frozenset(LifecycleEvent) - _BROKERS_OWN
_FIRM: Final = frozenset({SupportState.NATIVE, SupportState.SYNTHESIZED})


def is_valid(subject: Subject) -> Iterator[str]:
    """The manifest is valid by the contract, and is the same after a trip through JSON."""
    try:
        again = decode_json(encode_json(subject.manifest), AdapterManifest)
    except LifebusError as fault:
        yield f"the manifest is refused: {fault.detail}"
        return
    if again != subject.manifest:
        yield "the manifest changes on a trip through JSON"


def agrees_with_itself(subject: Subject) -> Iterator[str]:
    """No claim of the manifest contradicts another, nor the code behind it."""
    manifest = subject.manifest
    announced = manifest.lifecycle_events.get(LifecycleEvent.RECEIPT_EMITTED)
    if announced is not None and announced.support is not SupportState.UNAVAILABLE:
        yield "event `receipt.emitted` is claimed: it is the receipt stream's, and no client is asked about it"
    for slot, claim in manifest.placement.items():
        if claim.support is SupportState.UNAVAILABLE and claim.max_bytes is not None:
            yield f"placement `{slot.value}` is unavailable and yet has `max_bytes`"
        if claim.support in _FIRM and claim.max_bytes is None:
            yield f"placement `{slot.value}` has no `max_bytes`: nobody knows what fits"
    counted = Counter(source.source_id for source in manifest.telemetry_sources)
    yield from (f"telemetry source `{name}` is named {count} times" for name, count in counted.items() if count > 1)
    for source in subject.adapter.sources:
        if source.source_id not in counted:
            yield f"telemetry source `{source.source_id}` is read and not in the manifest"
    if PlacementClass.RECEIPT_ONLY in subject.adapter.registered.refused_placements:
        yield "`receipt_only` cannot be refused: it delivers nothing"


def every_hook_has_an_example(subject: Subject) -> Iterator[str]:
    """Every hook that the adapter knows has an example, silent ones too, and one shows private text."""
    if not subject.examples:
        yield "there are no examples"
        return
    shown = {example.hook for example in subject.examples}
    yield from (f"no example of hook `{hook}`" for hook in sorted((subject.hooks or frozenset()) - shown))
    if subject.hooks is not None:
        yield from (f"example of a hook that is not known: `{hook}`" for hook in sorted(shown - subject.hooks))
    if not any(PRIVATE in flat(example.payload) for example in subject.examples):
        yield f"no example holds private text (text with the word {PRIVATE})"


def every_claim_has_an_example(subject: Subject) -> Iterator[str]:
    """Every session and frame event, and every slot, that the manifest claims firmly has an example that shows it."""
    shown = {event for example in subject.examples for event in example.yields}
    for event, claim in subject.manifest.lifecycle_events.items():
        # Context events may come from telemetry alone, which has no examples.
        by_hook = event in _BY_HOOKS and not event.value.startswith("context.")
        if by_hook and claim.support in _FIRM and event not in shown:
            yield f"event `{event.value}` is claimed as {claim.support.value} and no example yields it"
    filled = {example.takes for example in subject.examples}
    for slot, placement in subject.manifest.placement.items():
        if placement.support in _FIRM and slot not in filled:
            yield f"placement `{slot.value}` is claimed as {placement.support.value} and no example fills it"
