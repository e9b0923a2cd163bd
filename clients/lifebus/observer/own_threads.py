"""Threads that the broker has opened for its workers: what their turns say, and what they ask for.  Pure.

Nobody sits in front of such a thread, and its client does not see it: what the server asks there is refused at once.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Struct

from lifebus.observer.server_messages import ServerMessage, turn_in
from lifebus_adapters.app_server.errors import ErrorInfo, error_facts
from lifebus_contract import RetryClass
from lifebus_transports.messages.signals import MAX_TURN_TEXT, ObservedTurn
from lifebus_transports.messages.steering import SteeringState

MAX_THREADS: Final = 1_024
"""Threads of the broker's own that are watched; of more the one that was opened first is not."""

DECLINED: Final[Mapping[str, Any]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "execCommandApproval": {"decision": {"denied": {"rejection": "declined"}}},
    "applyPatchApproval": {"decision": {"denied": {"rejection": "declined"}}},
}
"""How approvals are refused, by the method that asks for them; everything else is answered with an error."""

_MAX_WORD: Final = 128
_MAX_ERROR: Final = 1_024
_REFUSAL: Final = {"code": -32600, "message": "nobody is there to answer: the thread belongs to a worker of lifebus"}


class _Thread(Struct):
    """One thread: the turn that runs, what it said last, and the turn that ended last."""

    turn: str | None = None
    text: str = ""
    ended: str | None = None


class OwnThreads:
    """The broker's own threads of one app-server.  `report` gets what their turns come to.

    `refusals` are lines for the server that wait to be sent.
    """

    def __init__(self, report: Callable[[ObservedTurn], None]) -> None:
        self.refusals: deque[bytes] = deque()
        self._report = report
        self._threads: dict[str, _Thread] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._threads

    def __bool__(self) -> bool:
        return bool(self._threads)

    def add(self, name: str) -> None:
        """Watch a thread from here on."""
        self._threads.setdefault(name, _Thread())
        if len(self._threads) > MAX_THREADS:
            del self._threads[next(iter(self._threads))]

    def begun(self, name: str, turn: str) -> None:
        """Note that a turn was begun; it may have ended by now."""
        thread = self._threads.get(name)
        if thread is not None and thread.ended != turn:
            thread.turn = turn

    def running(self) -> list[tuple[str, str]]:
        """Return the turns that run, each with its thread."""
        return [(name, one.turn) for name, one in self._threads.items() if one.turn is not None]

    def turn_of(self, name: str) -> str | None:
        """Return the turn that runs in a thread."""
        thread = self._threads.get(name)
        return None if thread is None else thread.turn

    def state_of(self, name: str, turn: str) -> SteeringState:
        """Return how a turn stands: it runs, it is over and reported, or this observer does not know it."""
        thread = self._threads.get(name)
        if thread is None or turn not in {thread.turn, thread.ended}:
            return SteeringState.ABSENT
        return SteeringState.PENDING if turn == thread.turn else SteeringState.DONE

    def see(self, message: ServerMessage) -> None:
        """Take in a message of the server."""
        params = message.params or {}
        name = params.get("threadId") or params.get("conversationId")
        thread = self._threads.get(name) if isinstance(name, str) else None
        if thread is None or not isinstance(name, str) or message.method is None:
            return
        if message.id is not None:
            self._refuse(message)
        elif message.method == "turn/started":
            thread.turn, thread.text = turn_in(params), ""
        elif message.method == "item/completed":
            self._item(name, thread, params)
        elif message.method == "turn/completed":
            self._end(name, thread, params)

    def close(self, *, all_read: bool) -> None:
        """Report the turns that run: their server is gone, or not all that it said was read.

        Unless all was read, such a turn may have come to its end, and must not be had again.
        """
        for name, thread in self._threads.items():
            if thread.turn is not None:
                status: Literal["abandoned", "lost"] = "abandoned" if all_read else "lost"
                self._report(ObservedTurn(thread=name, turn=thread.turn, status=status))
                thread.turn, thread.ended = None, thread.turn

    def _refuse(self, message: ServerMessage) -> None:
        declined = DECLINED.get(message.method or "")
        answer = {"error": _REFUSAL} if declined is None else {"result": declined}
        self.refusals.append(msgspec.json.encode({"id": message.id, **answer}) + b"\n")

    def _item(self, name: str, thread: _Thread, params: dict[str, Any]) -> None:
        item = params.get("item")
        if not isinstance(item, dict) or thread.turn is None:
            return
        kind = str(cast("dict[str, object]", item).get("type", ""))
        thread.text = _text_of(item) or thread.text
        self._report(ObservedTurn(thread=name, turn=thread.turn, status="inProgress", item=kind[:_MAX_WORD]))

    def _end(self, name: str, thread: _Thread, params: dict[str, Any]) -> None:
        turn = turn_in(params)
        if turn is None or turn == thread.ended:  # what it came to was reported, or that nobody knows
            return
        end = _end_of(params.get("turn"))
        said = [text for item in end.items if (text := _text_of(item))]
        text, cut = _bounded(thread.text or (said[-1] if said else ""))
        status = end.status if end.status in {"completed", "interrupted", "failed"} else "failed"
        error, retryable = _error_of(end.error)
        thread.turn, thread.ended, thread.text = None, turn, ""
        self._report(
            ObservedTurn(
                thread=name,
                turn=turn,
                status=status,  # type: ignore[arg-type]  # one of three
                text=text,
                cut=cut,
                error=error,
                retryable=retryable,
            )
        )


class _End(Struct):
    status: str = ""
    items: list[Any] = []
    error: Any = None


def _end_of(turn: object) -> _End:
    try:
        return msgspec.convert(turn, _End)
    except msgspec.ValidationError:
        return _End()


def _text_of(item: Any) -> str:
    """Return what the model says in an item, nothing where it says nothing."""
    known = cast("dict[str, object]", item) if isinstance(item, dict) else {}
    text = known.get("text") if known.get("type") == "agentMessage" else None
    return text if isinstance(text, str) else ""


def _bounded(text: str) -> tuple[str, bool]:
    data = text.encode("utf-8", "replace")
    return (text, False) if len(data) <= MAX_TURN_TEXT else (data[:MAX_TURN_TEXT].decode("utf-8", "ignore"), True)


def _error_of(error: Any) -> tuple[str, bool]:
    if not isinstance(error, dict):
        return "", False
    said = cast("dict[str, object]", error)
    facts = error_facts(ErrorInfo.of(msgspec.json.encode(said)), will_retry=False)
    return str(said.get("message", ""))[:_MAX_ERROR], facts["retry_class"] == RetryClass.SAFE_RETRY.value
