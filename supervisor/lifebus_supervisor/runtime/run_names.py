"""What things of a run are called: questions in the inbox, frames on the bus, steps that are not there.  Pure.

The names are derived, never drawn: who does the same again after a crash finds what is there already.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from lifebus_contract import InvalidRequest

QUESTION: Final = "q_"
"""What the ids of questions begin with."""

_LONGEST: Final = 256
"""Most characters of an identifier of the contract."""


def question_id(run_id: str, step_id: str | None, series: int) -> str:
    """Return the id of the question about a series of tries; without a step, of one about the run."""
    return _fitting(f"{QUESTION}{run_id}_{step_id or '*'}_{series}")


def approval_id(run_id: str, step_id: str, series: int) -> str:
    """Return the id of the question that comes before the first try; it is another one in a run that goes on again."""
    return _fitting(f"{QUESTION}{run_id}_{step_id}_a{series}")


def frame_id(step_id: str, number: int) -> str:
    """Return the frame that a try is on the bus."""
    return _fitting(f"{step_id}#{number}")


def no_step(step_id: str, known: Iterable[str]) -> InvalidRequest:
    """Return the refusal of a step that a run does not have, with those that it has."""
    # Without the word: a client may call its steps otherwise.
    return InvalidRequest(f"the run has no `{step_id[:64]}`; it has {', '.join(known)[:512]}", code="no_step")


def _fitting(name: str) -> str:
    """Return a name, cut with a digest of the whole in place of the rest where it is too long."""
    if len(name) <= _LONGEST:
        return name
    digest = sha256(name.encode()).hexdigest()[:32]
    return f"{name[: _LONGEST - len(digest) - 1]}~{digest}"
