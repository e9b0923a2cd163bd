"""What the server asks of people, and whether they answered.  Pure."""

from collections import deque
from typing import Any, Final

from msgspec import Raw, Struct

from lifebus_adapters.app_server.context import decoded, identifier
from lifebus_adapters.app_server.facts import OperatorAnswered, OperatorAsked
from lifebus_adapters.app_server.messages import RequestId, RpcRequest

_MAX_PENDING: Final = 1_024
_MAX_SETTLED: Final = 256
_YEAR_MS: Final = 86_400_000 * 365

_KINDS: Final = {
    "item/commandExecution/requestApproval": "command_approval",
    "execCommandApproval": "command_approval",
    "item/fileChange/requestApproval": "file_change_approval",
    "applyPatchApproval": "file_change_approval",
    "item/permissions/requestApproval": "permissions_approval",
    "item/tool/requestUserInput": "user_input",
    "mcpServer/elicitation/request": "elicitation",
}
"""The requests that a person has to answer; the others are for the client program."""

_WORDS: Final = frozenset(
    {
        *("accept", "acceptForSession", "acceptWithExecpolicyAmendment", "applyNetworkPolicyAmendment"),
        *("approved", "approved_for_session", "approved_execpolicy_amendment", "network_policy_amendment"),
        *("decline", "denied", "cancel", "abort", "timed_out"),
    }
)
"""The protocol's own words for a decision; anything else is somebody's text."""


class _Asked(Struct, frozen=True):
    fact: OperatorAsked
    at_ms: int


class _Item(Struct, rename="camel"):
    item_id: Any = None
    call_id: Any = None


class _Answer(Struct):
    decision: str | dict[str, Raw] | None = None
    action: str | None = None


class _Resolved(Struct, rename="camel"):
    request_id: int | str | None = None


class PendingQuestions:
    """The requests to people that nobody has answered yet, by their id."""

    def __init__(self) -> None:
        self._pending: dict[tuple[type, RequestId], _Asked] = {}
        self._settled: deque[OperatorAsked] = deque(maxlen=_MAX_SETTLED)

    def ask(self, request: RpcRequest, thread: str, turn: str | None, at_ms: int) -> list[OperatorAsked]:
        """Return the fact that a person is asked, nothing where the request is for a program."""
        kind = _KINDS.get(request.method)
        if kind is None:
            return []
        item = decoded(request.params, _Item) or _Item()
        asked = OperatorAsked(
            session=thread,
            frame_id=turn,
            request_id=request.id,
            method=request.method,
            kind=kind,
            item_id=identifier(item.item_id) or identifier(item.call_id),
            at_ms=max(0, at_ms),
        )
        self._pending[request_key(request.id)] = _Asked(asked, at_ms)
        # A server that asks and never resolves must not fill the memory.
        if len(self._pending) > _MAX_PENDING:
            del self._pending[next(iter(self._pending))]
        return [asked]

    def pending(self) -> list[OperatorAsked]:
        """Return what nobody has answered yet, in the order in which it was asked."""
        return [asked.fact for asked in self._pending.values()]

    def settled(self) -> list[OperatorAsked]:
        """Return what was asked and is over, as far as it is remembered."""
        return list(self._settled)

    def answer(
        self, number: RequestId, result: Raw | None, at_ms: int, by: str | None = None
    ) -> list[OperatorAnswered]:
        """Return the fact that a client answered, or lifebus; an error counts as an answer without a decision."""
        return self._end(request_key(number), "answered", at_ms, _decision(result), by)

    def resolve(self, thread: str, params: bytes, at_ms: int) -> list[OperatorAnswered]:
        """Return the fact that the server needs no answer any more, unless one was seen."""
        parsed = decoded(params, _Resolved)
        if parsed is None or parsed.request_id is None:
            return []
        key = request_key(parsed.request_id)
        # The thread is compared, because the notification names it and an id may come again.
        asked = self._pending.get(key)
        return self._end(key, "resolved", at_ms) if asked is not None and asked.fact.session == thread else []

    def drop(self, thread: str) -> list[OperatorAnswered]:
        """Return what nobody will answer any more, now that the thread is over."""
        keys = [key for key, asked in self._pending.items() if asked.fact.session == thread]
        return [fact for key in keys for fact in self._end(key, "unanswered", None)]

    def _end(
        self,
        key: tuple[type, RequestId],
        outcome: str,
        at_ms: int | None,
        decision: str | None = None,
        by: str | None = None,
    ) -> list[OperatorAnswered]:
        asked = self._pending.pop(key, None)
        if asked is None:
            return []
        fact = asked.fact
        self._settled.append(fact)
        return [
            OperatorAnswered(
                session=fact.session,
                frame_id=fact.frame_id,
                request_id=fact.request_id,
                method=fact.method,
                kind=fact.kind,
                item_id=fact.item_id,
                outcome=outcome,  # type: ignore[arg-type]  # one of three words, all above
                decision=decision,
                # Clocks may go back between the two messages.
                waited_ms=None if at_ms is None else min(max(0, at_ms - asked.at_ms), _YEAR_MS),
                asked_at_ms=fact.at_ms,
                by=by,
            )
        ]


def request_key(number: RequestId) -> tuple[type, RequestId]:
    """Return a key that differs for every two requests: 1 and ``"1"`` are two."""
    return type(number), number


def _decision(result: Raw | None) -> str | None:
    parsed = decoded(result, _Answer) if result is not None else None
    if parsed is None:
        return None
    word = parsed.decision or parsed.action
    if isinstance(word, dict):
        # Some decisions are an object with one key, whose value stays behind.
        word = next(iter(word), None) if len(word) == 1 else None
    return word if word in _WORDS else None
