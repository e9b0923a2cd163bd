"""Reads an app-server's stdin and stdout: lines in, signals and facts out.  No I/O, no clock of its own.

Both directions are read: a client's requests say what an answer is about, which names the threads that were resumed,
and its answers say what people decided.  Signals are made of the server's messages alone.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct

from lifebus_adapters.app_server.context import context_of, decoded, identifier
from lifebus_adapters.app_server.facts import AppServerFact, OperatorAsked, ThreadClosed, TurnSteered
from lifebus_adapters.app_server.mapping import facts_of, opened
from lifebus_adapters.app_server.messages import RpcNotification, RpcRequest, RpcResponse, read_message
from lifebus_adapters.app_server.operators import PendingQuestions
from lifebus_adapters.app_server.requests import COMPACT, OPENING, RECORD_METHODS, ClientRequests
from lifebus_adapters.app_server.signals import signal_of
from lifebus_adapters.app_server.threads import Thread, Threads
from lifebus_contract.fields import FactValue

Direction = Literal["in", "out"]
"""``in`` is from the client to the server, ``out`` from the server to the client."""

_ITEMS: Final = frozenset({"item/started", "item/completed"})


class SignalSeen(Struct, frozen=True):
    """A signal for the bus: its thread, None where it has none, its name, and the envelope as JSON."""

    thread: str | None
    event_type: str
    signal: bytes


class FactSeen(Struct, frozen=True):
    """A fact for the ledger."""

    fact: AppServerFact


Observed = SignalSeen | FactSeen
"""What was read, in the order of the wire; a message's signal comes before its facts."""


class ReaderCounters(Struct):
    """What was read: `messages` of both directions, and lines that were no message (`junk`).

    `signals` counts those that were returned, `withheld` those of deleted and system-owned threads.  `overlong` lines
    and places where bytes were `lost` are counted by who cuts the lines.
    """

    messages: int = 0
    junk: int = 0
    overlong: int = 0
    lost: int = 0
    signals: int = 0
    withheld: int = 0


class _Result(Struct):
    thread: Raw = Raw(b"null")


class _Call(Struct, rename="camel"):
    type: str = ""
    receiver_thread_ids: list[str] = []


class _ItemParams(Struct):
    item: _Call


class AppServerReader:
    """Reads one app-server from its start to its end.  Lines for the server are read before it can have them.

    `counters` is what was read so far.
    """

    def __init__(self) -> None:
        self.counters = ReaderCounters()
        self._threads = Threads()
        self._questions = PendingQuestions()
        self._requests = ClientRequests()
        self._greeted = False
        self._has_gap = False

    def read(self, direction: Direction, line: bytes, received_at_ms: int, by: str | None = None) -> list[Observed]:
        """Return what a line says; it came at a time, in milliseconds since 1970.  Never raises.

        `by` is who had lifebus send a line that is none of the client's.
        """
        message = read_message(line)
        if message is None:
            self.counters.junk += 1
            return []
        self.counters.messages += 1
        if direction == "out":
            return self._from_server(message, received_at_ms)
        return _seen(self._from_client(message, received_at_ms, by))

    def questions(self) -> list[OperatorAsked]:
        """Return what the server waits for, and nobody has answered."""
        return self._questions.pending()

    def settled(self) -> list[OperatorAsked]:
        """Return what the server waited for and does not any more, as far as it is remembered."""
        return self._questions.settled()

    def has_thread(self, name: str) -> bool:
        """Whether a thread can take turns here, as far as was seen."""
        return any(thread.id == name for thread in self._threads.live())

    def cwd_of(self, name: str) -> str | None:
        """Return the directory in which a thread works, None where that was not seen."""
        cwd = next((thread.cwd for thread in self._threads.live() if thread.id == name), None)
        return cwd if cwd is not None and cwd.startswith("/") else None

    def adopt(self, name: str) -> None:
        """Take it that a thread is the broker's own: it gives neither signals nor facts."""
        if not self._threads.is_purged(name):
            self._threads.find(name).system = True

    def note_gap(self) -> None:
        """Note that a line was not read: from now on an unknown thread need not be the server's own."""
        self._has_gap = True

    def close(self, evidence: Mapping[str, FactValue], counts: Mapping[str, FactValue] | None = None) -> list[Observed]:
        """Return the end of everything that is open, now that the server is gone.

        `evidence` shows it: ``{"exit_code": 0}``, ``{"signal": 9}``.  Any other than the exit code 0 broke it off.
        `counts` of what was read and what was not stand beside it.
        """
        how: Literal["completed", "abandoned"] = "completed" if evidence.get("exit_code") == 0 else "abandoned"
        text = ", ".join(f"{name} {value}" for name, value in evidence.items()) or "unknown how"
        facts: list[AppServerFact] = []
        for thread in self._threads.live():
            facts += self._questions.drop(thread.id)
            over = f"the app-server is gone: {text}"[:1_024]
            facts.append(
                ThreadClosed(session=thread.id, evidence=over, how=how, details={**evidence, **(counts or {})})
            )
            thread.live, thread.turn = False, None
        return _seen(facts)

    def _from_client(
        self, message: RpcRequest | RpcNotification | RpcResponse, at_ms: int, by: str | None
    ) -> list[AppServerFact]:
        match message:
            case RpcRequest():
                self._note_request(message, ours=by is not None)
                return [] if by is None else self._steered(message, by)
            case RpcResponse():
                return [*self._questions.answer(message.id, message.result, at_ms, by)]
            case RpcNotification():
                pass
        return []

    def _steered(self, request: RpcRequest, by: str) -> list[AppServerFact]:
        name = context_of(request.params).thread
        if name is None or self._threads.is_purged(name):
            return []
        thread = self._threads.find(name)
        if thread.system:  # the broker's own: its job says what is done there
            return []
        return [TurnSteered(session=name, frame_id=thread.turn, method=request.method, request_id=request.id, by=by)]

    def _note_request(self, request: RpcRequest, *, ours: bool) -> None:
        """Remember a request whose answer matters; a thread that a client names is not one of the server's own."""
        name = context_of(request.params).thread
        self._greeted = self._greeted or request.method == "initialize"
        self._requests.note(request, name, ours=ours)
        if name is not None and not self._threads.is_purged(name):
            thread = self._threads.find(name)
            thread.known = True
            thread.compact_wanted = thread.compact_wanted or request.method == COMPACT

    def _from_server(self, message: RpcRequest | RpcNotification | RpcResponse, at_ms: int) -> list[Observed]:
        if isinstance(message, RpcResponse):
            return _seen(self._answered(message))
        context = context_of(message.params)
        if context.thread is None:
            return [self._signal(message, None, context.turn, at_ms)]
        # Deleted means deleted: late messages of the thread are withheld, too.
        if self._threads.is_purged(context.thread):
            self.counters.withheld += 1
            return []
        thread = self._threads.find(context.thread)
        # First, because this very message may show whose thread it is.
        self._learn(thread, message)
        if self._is_servers_own(thread):
            self.counters.withheld += 1
            self._forget_deleted(thread, message)
            return []
        # Many notifications name only the thread; then the turn that runs in it is meant.
        turn = context.turn or thread.turn
        return [self._signal(message, thread, turn, at_ms), *_seen(self._facts(message, thread, turn, at_ms))]

    def _is_servers_own(self, thread: Thread) -> bool:
        """Whether the server started a thread for itself; it announces no such thread, and its record may never come.

        A thread that no message named is its own, if everything was read since the client's first message.
        """
        return thread.system or (not thread.known and self._saw_all and not self._requests.awaits_thread)

    @property
    def _saw_all(self) -> bool:
        return self._greeted and not self._has_gap

    def _signal(
        self, message: RpcRequest | RpcNotification, thread: Thread | None, turn: str | None, at_ms: int
    ) -> SignalSeen:
        self.counters.signals += 1
        signal = signal_of(message, thread, turn, at_ms)
        return SignalSeen(signal.context.thread_id, signal.event_type, msgspec.json.encode(signal))

    def _facts(
        self, message: RpcRequest | RpcNotification, thread: Thread, turn: str | None, at_ms: int
    ) -> list[AppServerFact]:
        if isinstance(message, RpcRequest):
            return [*self._questions.ask(message, thread.id, turn, at_ms)]
        if message.method == "serverRequest/resolved":
            return [*self._questions.resolve(thread.id, message.params, at_ms)]
        # A user's own turn came before the compaction that was asked for.
        if message.method == "turn/started" and self._requests.awaits_turn(thread.id):
            thread.compact_wanted = False
        facts = facts_of(thread, message.method, turn, message.params)
        if any(isinstance(fact, ThreadClosed) for fact in facts):
            facts = [*self._questions.drop(thread.id), *facts]
        self._forget_deleted(thread, message)
        return facts

    def _forget_deleted(self, thread: Thread, message: RpcRequest | RpcNotification) -> None:
        if message.method == "thread/deleted" and isinstance(message, RpcNotification):
            self._threads.purge(thread)

    def _learn(self, thread: Thread, message: RpcRequest | RpcNotification) -> None:
        """Take in what a message says of the thread itself."""
        learn = _LEARNING.get(message.method)
        if message.method in _ITEMS:
            self._note_agents(message.params)
        elif message.method == "thread/started":
            self._threads.learn((decoded(message.params, _Result) or _Result()).thread)
        elif learn is not None:
            learn(thread, decoded(message.params, _About) or _About())

    def _note_agents(self, params: bytes) -> None:
        """Note which threads belong to sub-agents that a turn has called."""
        parsed = decoded(params, _ItemParams)
        if parsed is not None and parsed.item.type == "collabAgentToolCall":
            for name in filter(identifier, parsed.item.receiver_thread_ids):
                self._threads.find(name).system = True

    def _answered(self, answer: RpcResponse) -> list[AppServerFact]:
        """Return the facts in an answer to a client's request about a thread."""
        sent = self._requests.answered(answer.id)
        if sent is None:
            return []
        if answer.result is None:
            # The server refused to compact, so that the next turn is an ordinary one.
            if sent.method == COMPACT and sent.thread is not None:
                self._threads.find(sent.thread).compact_wanted = False
            return []
        if sent.method not in RECORD_METHODS:
            return []
        thread = self._threads.learn((decoded(answer.result, _Result) or _Result()).thread)
        if thread is not None and sent.ours:
            thread.system = True
        how = OPENING.get(sent.method)
        return [] if thread is None or how is None else opened(thread, how, sent.method)


class _About(Struct, rename="camel"):
    thread_name: object = None
    project_id: object = None


def _rename(thread: Thread, parsed: _About) -> None:
    thread.title = identifier(parsed.thread_name)


def _assign(thread: Thread, parsed: _About) -> None:
    thread.project_id = identifier(parsed.project_id)


_LEARNING: Final[dict[str, Callable[[Thread, _About], None]]] = {
    "thread/name/updated": _rename,
    "thread/project/updated": _assign,
}


def _seen(facts: list[AppServerFact]) -> list[Observed]:
    return [FactSeen(fact) for fact in facts]
