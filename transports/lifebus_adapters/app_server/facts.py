"""What an app-server reports about lifecycles, as small facts: the harness's words for threads, turns and people.

Turns, compactions and token counts are the facts of telemetry.  No fact carries a word of the conversation.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from lifebus_adapters.shared.telemetry import Compacted, TurnEnded, TurnStarted, Usage
from lifebus_contract.fields import MAX_INTEGER, Count, Detail, FactKey, FactValue, Identifier

MAX_FACT: Final = 1024
"""Most characters of a text in a receipt's facts."""

_Id = Annotated[int, Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)] | Identifier


class ThreadOpened(Struct, frozen=True, kw_only=True, tag=True):
    """A thread can take turns: it was ``started``, ``resumed`` from the disk, or ``forked`` off another one.

    `cwd`, `git_branch` and `title` are what its own record says of it; the title is what somebody called it, never its
    `preview`, which is a prompt.
    """

    session: Identifier
    how: Literal["started", "resumed", "forked"]
    method: Identifier
    model: Identifier | None = None
    cwd: Annotated[str, Meta(min_length=1, max_length=MAX_FACT)] | None = None
    git_branch: Identifier | None = None
    title: Identifier | None = None


class ThreadClosed(Struct, frozen=True, kw_only=True, tag=True):
    """A thread is over: the server let it go or deleted it, or is gone itself; `evidence` says in words which.

    `how` is ``completed``, or ``abandoned`` where the server broke off; `details` are more facts for the receipt.
    """

    session: Identifier
    evidence: Detail
    how: Literal["completed", "abandoned"] = "completed"
    details: dict[FactKey, FactValue] = {}


class ErrorSeen(Struct, frozen=True, kw_only=True, tag=True):
    """The server met an error and goes on trying, or it happened outside any turn; `key` is unique in the session.

    `details` are the facts of `errors.error_facts`.
    """

    session: Identifier
    frame_id: Identifier | None
    key: Identifier
    details: dict[FactKey, FactValue]


class OperatorAsked(Struct, frozen=True, kw_only=True, tag=True):
    """The server waits for a person: `kind` is ``command_approval``, ``user_input`` and the like.

    `at_ms` is when it asked, in milliseconds since 1970; None where an older observer reports it.
    """

    session: Identifier
    frame_id: Identifier | None
    request_id: _Id
    method: Identifier
    kind: Identifier
    item_id: Identifier | None = None
    at_ms: Count | None = None


class OperatorAnswered(Struct, frozen=True, kw_only=True, tag=True):
    """A person answered, or will not any more: `outcome` is ``answered``, ``resolved`` elsewhere, or ``unanswered``.

    `decision` is the protocol's own word for the answer (``accept``), None where the answer is free text.  `by` is who
    had lifebus answer, None where it was the client.
    """

    session: Identifier
    frame_id: Identifier | None
    request_id: _Id
    method: Identifier
    kind: Identifier
    outcome: Literal["answered", "resolved", "unanswered"]
    item_id: Identifier | None = None
    decision: Identifier | None = None
    waited_ms: Count | None = None
    asked_at_ms: Count | None = None
    by: Identifier | None = None


class TurnSteered(Struct, frozen=True, kw_only=True, tag=True):
    """Lifebus has sent a request of its own: a turn was told something more, or begun; `by` is who wanted it."""

    session: Identifier
    frame_id: Identifier | None
    method: Identifier
    request_id: _Id
    by: Identifier


AppServerFact = (
    ThreadOpened
    | ThreadClosed
    | TurnStarted
    | TurnEnded
    | Usage
    | Compacted
    | ErrorSeen
    | OperatorAsked
    | OperatorAnswered
    | TurnSteered
)
"""Every fact that an app-server reports about lifecycles."""
