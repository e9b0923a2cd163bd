"""How a run of a command ended, as a value, and what that means for a dispatch: answer, failure or evidence."""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, structs

from lifebus_contract import (
    CallbackResponse,
    FailureClass,
    InvalidRequest,
    LifebusError,
    Warning,  # noqa: A004  the contract's own word
    error_for,
    load_json,
    validate,
)
from lifebus_contract.codes import CODES
from lifebus_contract.fields import MAX_MESSAGE_BYTES, FactKey, FactValue
from lifebus_transports.signal_names import signal_name


class Failure(StrEnum):
    """In which way a command failed; each is the `code` of its failure in receipts (docs/command-clients.md)."""

    SPAWN = "spawn"
    """It cannot be started."""
    DEADLINE = "deadline"
    TOO_LARGE = "too_large"
    """It wrote more than a message may hold."""
    KILLED = "killed"
    """A signal ended it, and it was not ours."""
    EXIT_CODE = "exit_code"
    """It ended with another exit code than 0."""
    STDIN_IGNORED = "stdin_ignored"
    """It ended well and left its stdin unread."""


class Finished(Struct, frozen=True, kw_only=True):
    """How a run of a command ended.  `stderr` is the end of it, redacted, at most 500 characters.

    `failure` says why what it wrote to stdout is no answer; None where it may be one.  `detail` is for people.
    `pipe_held` says that something which it had started still held its output when it ended.
    """

    stdout: bytes = b""
    stderr: str = ""
    exit_code: int | None = None
    signal: int | None = None
    failure: Failure | None = None
    detail: str = ""
    pipe_held: bool = False


_DETAILS: Final = {
    Failure.DEADLINE: "the command did not answer within its deadline",
    Failure.TOO_LARGE: f"the command wrote more than {MAX_MESSAGE_BYTES} bytes",
    Failure.STDIN_IGNORED: "the command ended without reading what it was asked",
}
_PIPE_HELD: Final = Warning(
    code="pipe_held", message="something that the command had started still held its output when it ended"
)
_MOST_WARNINGS: Final = 64


def fault_of(finished: Finished) -> LifebusError:
    """Return the error that stands for a failed run.

    Raises:
        ValueError: the run did not fail.
    """
    failure = finished.failure
    if failure is None:
        raise ValueError("a run that did not fail has no fault")
    row = CODES[failure.value]
    # `too_large` is a document's in the table; a command that writes too much is a payload's.
    failure_class = FailureClass.PAYLOAD_TOO_LARGE if failure is Failure.TOO_LARGE else row.failure_class
    return error_for(failure_class, _detail_of(finished), retry_class=row.asked_retry, code=failure.value)


def _detail_of(finished: Finished) -> str:
    if finished.failure is Failure.EXIT_CODE:
        return f"the command ended with exit code {finished.exit_code}"
    if finished.failure is Failure.KILLED:
        return f"the command was killed by {signal_name(finished.signal or 0)}"
    if finished.failure is Failure.SPAWN:
        return f"the command cannot be started: {finished.detail}"[:512]
    return _DETAILS[finished.failure or Failure.DEADLINE]


def spawn_failure(fault: Exception) -> Finished:
    """Return how a run ended that could not begin."""
    reason = fault.strerror if isinstance(fault, OSError) else None
    return Finished(failure=Failure.SPAWN, detail=reason or type(fault).__name__)


def evidence_of(finished: Finished) -> dict[FactKey, FactValue]:
    """Return the facts of a run for a receipt: exit code or signal, and stderr if there was any."""
    evidence: dict[FactKey, FactValue] = {}
    if finished.exit_code is not None:
        evidence["exit_code"] = finished.exit_code
    if finished.signal is not None:
        evidence["signal"] = signal_name(finished.signal)
    if finished.stderr:
        evidence["stderr"] = finished.stderr
    return evidence


def answer_of(finished: Finished) -> CallbackResponse:
    """Return the one response that a run wrote to stdout.

    Raises:
        LifebusError: the run failed, or wrote nothing, nonsense, or more than one document.
    """
    if finished.failure is not None:
        raise fault_of(finished)
    if not finished.stdout.strip():
        raise InvalidRequest("the command wrote no answer", code="no_answer")
    answer = answer_in([_read(finished.stdout)])
    if not finished.pipe_held:
        return answer
    return structs.replace(answer, warnings=(*answer.warnings[: _MOST_WARNINGS - 1], _PIPE_HELD))


def answer_in(documents: Sequence[Any]) -> CallbackResponse:
    """Return the one response among what was read, where a fault of reading stands for what could not be read.

    Raises:
        LifebusError: it is no response, or something follows it.
    """
    first, *more = documents
    if isinstance(first, LifebusError):
        raise first
    if more and isinstance(first, dict):
        raise InvalidRequest("the command wrote more than one document", code="two_documents")
    try:
        return validate(first, CallbackResponse)
    except InvalidRequest as fault:
        raise bad_answer(fault) from None


def bad_answer(fault: InvalidRequest) -> InvalidRequest:
    """Return the fault of a document that is no answer, in the words of the fault of the document."""
    return InvalidRequest(f"the answer is no response: {fault.detail}"[:512], code="bad_answer", field=fault.field)


def _read(data: bytes) -> Any:
    """Return the document that `data` is, or the fault."""
    try:
        return load_json(data)
    except InvalidRequest as fault:
        if _is_two_documents(data):
            return InvalidRequest("the command wrote more than one document", code="two_documents")
        return bad_answer(fault)


def _is_two_documents(data: bytes) -> bool:
    # Only to name the fault: the strict reader does not say that a second document follows.
    decoder = json.JSONDecoder()
    try:
        text = data.decode().strip()
        _, end = decoder.raw_decode(text)
        decoder.raw_decode(text[end:].strip())
    except (ValueError, RecursionError):
        return False
    return True
