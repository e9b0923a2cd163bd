"""What does the adapter make of calls that no harness sends: a refusal, or a whole reading, and never anything else."""

from collections.abc import Iterator
from typing import Final

import msgspec

from lifebus_adapters.adapter import MAX_PAYLOAD_BYTES, HookReading
from lifebus_adapters.conformance.examples import PRIVATE, Example, call_of, call_with
from lifebus_adapters.conformance.hostile import NOT_OBJECTS, STRANGE, mutations, renamed, truncations
from lifebus_adapters.conformance.subject import Subject, flat, read_or_refuse
from lifebus_contract import Emission, InvalidRequest, LifebusError, validate

_UNKNOWN: Final = "no.such.hook"
_TOO_MUCH: Final = 2 * MAX_PAYLOAD_BYTES


def cut_off_payloads_are_refused(subject: Subject) -> Iterator[str]:
    """A payload that ends too early is refused, wherever it ends."""
    for example in subject.examples:
        for stdin in truncations(msgspec.json.encode(example.payload)):
            yield from _must_refuse(subject, example, stdin, f"cut off after {len(stdin)} bytes")


def nonsense_is_refused(subject: Subject) -> Iterator[str]:
    """What is no object is refused: other JSON, no JSON, no text, nothing."""
    for example in subject.examples:
        for stdin in NOT_OBJECTS:
            yield from _must_refuse(subject, example, stdin, f"with {len(stdin)} bytes of nonsense")


def unknown_hooks_are_refused(subject: Subject) -> Iterator[str]:
    """A hook that the harness does not have is refused, whatever else the payload says."""
    for example in subject.examples:
        # The name in the payload counts more than that of the command line, so that both are changed.
        stdin = msgspec.json.encode(renamed(example.payload, example.hook, _UNKNOWN))
        yield from _must_refuse(subject, example, stdin, "under an unknown name", hook=_UNKNOWN)


def oversized_payloads_are_refused(subject: Subject) -> Iterator[str]:
    """A payload that was too large to be carried is refused, never taken for an empty one."""
    for example in subject.examples:
        call = call_with(b"", example.hook, subject.manifest.adapter_id, oversized=_TOO_MUCH)
        if not isinstance(read_or_refuse(subject, call), InvalidRequest):
            yield f"{example.title}: a payload that was not carried is read"


def large_payloads_do_no_harm(subject: Subject) -> Iterator[str]:
    """A payload of the largest size is read as a small one is, or refused."""
    for example in subject.examples:
        small = msgspec.json.encode(example.payload)
        padding = "x" * (MAX_PAYLOAD_BYTES - len(small) - 32)
        stdin = msgspec.json.encode({**example.payload, "lifebus_padding": padding})
        yield from _must_be_whole(subject, example, stdin, "with much padding")


def strange_values_do_no_harm(subject: Subject) -> Iterator[str]:
    """A wrong type, a missing field, deep nesting, huge numbers or odd characters give a refusal or a whole."""
    for example in subject.examples:
        for where, payload in mutations(example.payload):
            yield from _must_be_whole(subject, example, msgspec.json.encode(payload), f"with a strange `{where}`")
        plain = msgspec.json.encode(example.payload)
        for number, strange in enumerate(STRANGE):
            # Put in as bytes: some of the values cannot be encoded.
            stdin = plain[:-1] + b',"lifebus_extra":' + strange + b"}"
            yield from _must_be_whole(subject, example, stdin, f"with extra value {number}")


def _must_refuse(subject: Subject, example: Example, stdin: bytes, how: str, hook: str | None = None) -> Iterator[str]:
    call = call_with(stdin, example.hook if hook is None else hook, subject.manifest.adapter_id)
    if not isinstance(read_or_refuse(subject, call), InvalidRequest):
        yield f"{example.title} {how} is read"


def _must_be_whole(subject: Subject, example: Example, stdin: bytes, how: str) -> Iterator[str]:
    """Accept a refusal, or events that some example yields, valid, of one call, and without private text."""
    call = call_with(stdin, example.hook, subject.manifest.adapter_id)
    found = read_or_refuse(subject, call)
    if isinstance(found, HookReading):
        yield from (f"{example.title} {how} {fault}" for fault in _faults(subject, found))


def _faults(subject: Subject, reading: HookReading) -> Iterator[str]:
    # One event of a pair without the other would leave a session or frame half open.
    wholes = {example.yields for example in subject.examples} | {()}
    if tuple(emission.request.event for emission in reading.emissions) not in wholes:
        yield "yields a part of what it stands for"
    if len({emission.request.invocation_id for emission in reading.emissions}) > 1:
        yield "has several invocation ids"
    for emission in reading.emissions:
        try:
            validate(emission, Emission)
        except LifebusError as fault:
            yield f"breaks the contract: {fault.detail}"
        if PRIVATE in flat(emission):
            yield "passes private text on"


def nothing_hostile_is_remembered(subject: Subject) -> Iterator[str]:
    """After nonsense every example is read as before it."""
    for number, example in enumerate(subject.examples):
        read_or_refuse(subject, call_with(NOT_OBJECTS[0], example.hook, subject.manifest.adapter_id))
        found = read_or_refuse(subject, call_of(example, subject.manifest.adapter_id, number))
        if isinstance(found, InvalidRequest) or len(found.emissions) != len(example.yields):
            yield f"{example.title} is not read as before"
