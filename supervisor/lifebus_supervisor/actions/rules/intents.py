"""A worker's answer, read as a batch of action intents; what a batch comes to.  Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from lifebus_contract.actions.intents import ActionIntents, IntentResult
from lifebus_contract.extensions import ActionOutcome, ActionRequest, ActionScope, ActionStatus
from lifebus_supervisor.actions.rules.signatures import canonical_json, fallback_key, signature_digest, signature_of

FAILING: Final = frozenset({ActionStatus.FAILED, ActionStatus.INVALID, ActionStatus.FORBIDDEN})
"""The statuses of an intent that make its worker's job fail."""

MAX_ANSWER: Final = 4 * 1_048_576
"""Most characters of an answer that is read."""

# At the beginning of a line: within a JSON text three backticks stand in the middle of one.
_FENCE: Final = re.compile(r"(?ims)^[ \t]*```[ \t]*(?:json)?[ \t]*\r?\n(.*?)^[ \t]*```")


class UnreadableIntents(ValueError):
    """An answer is no batch of intents; nothing of it is done."""


def read_intents(answer: str) -> ActionIntents:
    """Return the batch that an answer holds: all of it, else what stands in a fence, else what stands in braces.

    What is JSON first is what counts; nothing is searched behind it.

    Raises:
        UnreadableIntents: there is none, or it is malformed.
    """
    if len(answer) > MAX_ANSWER:
        raise UnreadableIntents(f"the answer has more than {MAX_ANSWER} characters")
    for candidate in _candidates(answer.strip()):
        try:
            value = msgspec.json.decode(candidate)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            continue
        return convert_intents(value)
    raise UnreadableIntents("the answer holds no JSON; one object with `kind: action_intents` is expected")


def convert_intents(value: Any) -> ActionIntents:
    """Return the batch that a JSON value is.

    Raises:
        UnreadableIntents: it is none.
    """
    try:
        found = msgspec.convert(value, ActionIntents)
    except msgspec.ValidationError as fault:
        raise UnreadableIntents(f"the answer is no batch of action intents: {fault}") from None
    # A tag that is missing is passed over where only one type is possible; here it says what the worker means.
    if not all("kind" in one for one in (value, *value["intents"])):
        raise UnreadableIntents("the answer is no batch of action intents: a `kind` is missing")
    return found


def with_key(intent: ActionRequest, scope: ActionScope, job_kind: str) -> ActionRequest:
    """Return an intent under an idempotency key: its own, or one that follows from what it is.

    Raises:
        ValueError: its payload is no JSON.
    """
    if intent.idempotency_key is not None:
        return intent
    signature = signature_of(intent.action_type, scope, canonical_json(intent.payload))
    return msgspec.structs.replace(intent, idempotency_key=fallback_key(scope, job_kind, signature_digest(signature)))


def intent_result(intent: ActionRequest, outcome: ActionOutcome) -> IntentResult:
    """Return what a job's result says of an intent."""
    return IntentResult(
        action_type=intent.action_type,
        status=outcome.status,
        request_id=intent.request_id or outcome.request_id,
        idempotency_key=intent.idempotency_key,
        details=outcome.details,
    )


def failure_of(results: Sequence[IntentResult]) -> str | None:
    """Return why a batch fails its job, None where it does not: late and lost intents are no failure."""
    if not any(one.status in FAILING for one in results):
        return None
    listed = ", ".join(f"{one.action_type[:64]}:{one.status}" for one in results)
    return f"action intents failed: {listed}"[:2_048]


def counts_of(results: Sequence[IntentResult]) -> dict[str, int]:
    """Return how many intents came to each status, by name of status."""
    return dict(sorted(Counter(one.status.value for one in results).items()))


def _candidates(text: str) -> Iterator[str]:
    yield text
    for found in _FENCE.finditer(text):
        yield found.group(1).strip()
    first, last = text.find("{"), text.rfind("}")
    if 0 <= first < last:
        yield text[first : last + 1]
