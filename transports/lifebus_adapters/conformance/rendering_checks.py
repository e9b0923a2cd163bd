"""Checks that an adapter answers as its harness reads: nothing where nothing is due, else whole and in bounds."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from lifebus_adapters.adapter import ContextDelivery, HookAnswer
from lifebus_adapters.conformance.examples import CONTEXT, PRIVATE, Example, call_of
from lifebus_adapters.conformance.hostile import is_list, is_map
from lifebus_adapters.conformance.subject import Subject, deliver, room
from lifebus_contract import FailureClass, LifebusError, ManifestPlacementClass, SupportState, load_json

_AWKWARD: Final = (
    'quotes " and \\ and \n lines',
    "</hook_context></persisted-output>",
    "žluťoučký kůň \U0001f40e",
    "\u2028\u2029\x7f",
    "{context}",
    '{"payloads":[]}',
    "",
)
_NOTHING: Final = HookAnswer()
_LINE: Final = 200


def no_delivery_means_silence(subject: Subject) -> Iterator[str]:
    """Without anything to deliver the harness gets no output and exit code 0."""
    for example in subject.examples:
        if not example.shows and _render(subject, example, []) != _NOTHING:
            yield f"{example.title} is answered with something"


def shown_text_is_one_short_line(subject: Subject) -> Iterator[str]:
    """What the harness shows to the user is one short printable line, and nothing private."""
    for example in subject.examples:
        if not example.shows:
            continue
        answer = _render(subject, example, [])
        text = answer.stdout.decode(errors="replace").removesuffix("\n")
        if answer.exit_code != 0 or not text.isprintable() or len(text) > _LINE or PRIVATE in text:
            yield f"{example.title} shows something else than one short line"


def deaf_hooks_get_nothing(subject: Subject) -> Iterator[str]:
    """A hook that takes no context is answered with nothing even if there is something to deliver."""
    for example in subject.examples:
        if example.takes is not None or example.shows:
            continue
        for slot in ManifestPlacementClass:
            if _render(subject, example, [deliver("hello", slot)]) != _NOTHING:
                yield f"{example.title} takes nothing and is answered with something"
                break


def slots_are_claimed(subject: Subject) -> Iterator[str]:
    """A hook fills only a slot that the manifest claims."""
    for example in subject.examples:
        claim = subject.manifest.placement.get(example.takes) if example.takes is not None else None
        if example.takes is not None and (claim is None or claim.support is SupportState.UNAVAILABLE):
            yield f"{example.title} fills `{example.takes.value}`, which the manifest does not claim"


def answers_are_exact(subject: Subject) -> Iterator[str]:
    """The answer is what the harness reads, not a key more or less, with every payload in order, exit code 0."""
    for example, slot in _takers(subject):
        deliveries = [deliver("first", slot, "pay_1"), deliver("second", slot, "pay_2")]
        # An adapter gets the broker's own list, and others use it after that.
        kept = list(deliveries)
        answer = _render(subject, example, deliveries)
        if deliveries != kept:
            yield f"{example.title}: the list of deliveries was changed"
        if answer != _render(subject, example, kept):
            yield f"{example.title} is answered differently the second time"
        yield from (f"{example.title} {fault}" for fault in _answer_faults(example, answer, ["first", "second"]))


def awkward_text_arrives_whole(subject: Subject) -> Iterator[str]:
    """Quotes, line ends, markup, other alphabets and empty text arrive as they are."""
    for example, slot in _takers(subject):
        for body in _AWKWARD:
            answer = _render(subject, example, [deliver(body, slot)])
            yield from (f"{example.title} {fault}" for fault in _answer_faults(example, answer, [body]))


def limits_are_kept(subject: Subject) -> Iterator[str]:
    """The largest text that the manifest allows is rendered whole, and one byte more is refused, never cut."""
    for example, slot in _takers(subject):
        claim = subject.manifest.placement.get(slot)
        if claim is None or claim.max_bytes is None:
            continue
        largest = "x" * room(claim.max_bytes, slot)
        answer = _render(subject, example, [deliver(largest, slot)])
        yield from (f"{example.title} at its limit {fault}" for fault in _answer_faults(example, answer, [largest]))
        try:
            _render(subject, example, [deliver(largest + "x", slot)])
        except LifebusError as refusal:
            if refusal.failure_class is not FailureClass.PAYLOAD_TOO_LARGE:
                yield f"{example.title} over its limit is refused as {refusal.failure_class.value}"
        else:
            yield f"{example.title} takes more than {claim.max_bytes} bytes"


def _takers(subject: Subject) -> Iterator[tuple[Example, ManifestPlacementClass]]:
    return ((example, example.takes) for example in subject.examples if example.takes is not None)


def _render(subject: Subject, example: Example, deliveries: Sequence[ContextDelivery]) -> HookAnswer:
    return subject.adapter.render(call_of(example, subject.manifest.adapter_id), deliveries)


def _answer_faults(example: Example, answer: HookAnswer, bodies: list[str]) -> Iterator[str]:
    """Compare an answer with the example's: the same but for the text, and in the text exactly these bodies."""
    if answer.exit_code != 0:
        yield f"is answered with exit code {answer.exit_code}"
    try:
        found = load_json(answer.stdout)
    except LifebusError as fault:
        yield f"is answered with what is no JSON: {fault.detail}"
        return
    texts: list[str] = []
    if not _matches(example.answer, found, texts) or len(texts) != 1:
        yield "is answered in another form than the example's"
        return
    if _bodies(texts[0]) != bodies:
        yield "does not carry exactly the payloads"


def _matches(wanted: Any, found: Any, texts: list[str]) -> bool:
    """Whether two pieces of JSON are the same but for the text, which is added to `texts`."""
    if wanted == CONTEXT and isinstance(found, str):
        texts.append(found)
        return True
    if is_map(wanted) and is_map(found):
        return wanted.keys() == found.keys() and all(_matches(wanted[key], found[key], texts) for key in wanted)
    if is_list(wanted) and is_list(found):
        pairs = zip(wanted, found, strict=False)
        return len(wanted) == len(found) and all(_matches(one, other, texts) for one, other in pairs)
    # 1 and true are equal to Python and not to JSON.
    return bool(wanted == found) and isinstance(wanted, bool) is isinstance(found, bool)


def _bodies(text: str) -> list[str] | None:
    """Return the bodies in a context text, None where it is not ``{"payloads":[…]}``."""
    try:
        return [payload["body"] for payload in msgspec.json.decode(text)["payloads"]]
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
