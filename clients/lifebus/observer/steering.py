"""Steers the app-server: answers what it waits for, tells its turns something more, begins turns and ends its own.

What is pending is what was read of both directions up to now.  A decision goes with how far the client's stream was
read; the proxy sends it only if the client has said nothing since.
"""

import asyncio
import itertools
import os
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import msgspec

from lifebus.observer.own_threads import DECLINED, OwnThreads
from lifebus.observer.server_messages import ServerMessage, thread_in, turn_in
from lifebus.observer.stream import AppServerStream
from lifebus.observer.way_back import ProxyWay
from lifebus.proxy.steering_socket import ANY_POSITION, MAX_LINE_BYTES, MOVED, SENT
from lifebus_adapters.app_server.facts import OperatorAsked
from lifebus_adapters.app_server.reader import Direction
from lifebus_contract.actions.approvals import approval_id
from lifebus_transports.messages.signals import ObservedTurn
from lifebus_transports.messages.steering import SteeringOrder, SteeringState

_NEW_STYLE: Final = {"accept": "accept", "decline": "decline", "cancel": "cancel"}
_ANSWERS: Final[dict[str, dict[str, Any]]] = {
    "item/commandExecution/requestApproval": _NEW_STYLE,
    "item/fileChange/requestApproval": _NEW_STYLE,
    **{
        method: {"accept": "approved", "decline": DECLINED[method]["decision"], "cancel": "abort"}
        for method in ("execCommandApproval", "applyPatchApproval")
    },
}
"""What each decision is in the server's words, by the method of the request; others are not decided here."""

_FOR_SESSION: Final = {"accept": "acceptForSession", "approved": "approved_for_session"}

_PAUSE_S: Final = 0.5
_REFUSAL_S: Final = 10.0
"""How long one try to refuse something takes at most."""

_MAX_KNOWN: Final = 1_024

Outcome = tuple[SteeringState, str, str, str]
"""What became of an order: the state, what the server said, the thread and the turn."""

_NO_THREAD: Final[Outcome] = (SteeringState.UNREACHABLE, "this app-server has no such thread", "", "")
_CLIENT_BUSY: Final[Outcome] = (SteeringState.UNREACHABLE, "the client is in the middle of a line", "", "")


class Steering:
    """Does orders.  `sender` is who wanted the line that is being sent.

    `own` are the broker's own threads; `report` gets what their turns come to.
    """

    def __init__(
        self, stream: AppServerStream, way: ProxyWay, report: Callable[[ObservedTurn], None] = lambda _: None
    ) -> None:
        self.sender = "lifebus"
        self.own = OwnThreads(report)
        self.woken = asyncio.Event()
        self._stream = stream
        self._way = way
        self._prefix = f"lifebus:{os.urandom(8).hex()}:"
        self._numbers = itertools.count(1)
        self._read: dict[Direction, int] = {"in": 0, "out": 0}
        self._moved = asyncio.Event()
        self._looks: list[Callable[[ServerMessage], None]] = []
        self._uncertain: set[str] = set()
        self._turn = asyncio.Lock()
        self._told: OrderedDict[str, asyncio.Future[Outcome]] = OrderedDict()
        self._has_forgotten = False

    def note_read(self, direction: Direction, position: int, *, lost: bool) -> None:
        """Take it that a direction is read up to a position.

        Where the client's bytes were `lost`, it may have answered what was pending; where the server's were, the end of
        a worker's turn may have been among them.
        """
        if lost and direction == "in":
            self._uncertain = {_name_of(asked) for asked in self._stream.questions()}
        if lost and direction == "out":
            self.own.close(all_read=False)
        self._read[direction] = position
        self._moved.set()

    async def do(self, order: SteeringOrder) -> Outcome:
        """Do an order, and return what became of it."""
        if order.kind == "approval":
            return self._look(order)
        if order.kind == "turn":
            return self.own.state_of(order.thread, order.turn), "", order.thread, order.turn
        done_by = {"decide": self._decide, "steered": self._recall, "open": self._open, "interrupt": self._interrupt}
        return await done_by.get(order.kind, self._do_once)(order)

    async def _do_once(self, order: SteeringOrder) -> Outcome:
        """Do what changes something; under an action's id it is done once, unless it was not sent."""
        known = self._told.get(order.action_id)
        if known is not None and (not known.done() or known.result()[0] is not SteeringState.UNREACHABLE):
            return await self._recall(order)
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if order.action_id:
            # Before it is sent: whoever asks meanwhile must not learn that nothing was.
            self._told[order.action_id] = done
            self._forget_oldest()
        try:
            done.set_result(await self._request(order))
        finally:
            if not done.done():
                done.set_result((SteeringState.UNKNOWN, "it was given up", order.thread, order.turn))
        return done.result()

    async def _recall(self, order: SteeringOrder) -> Outcome:
        """Return what became of what was done under an action's id; absent is what this observer never did."""
        known = self._told.get(order.action_id)
        if known is None and self._has_forgotten:
            return SteeringState.FORGOTTEN, "", "", ""
        if known is None:
            return SteeringState.ABSENT, "", "", ""
        try:
            async with asyncio.timeout_at(_deadline(order)):
                return await asyncio.shield(known)
        except TimeoutError:
            return SteeringState.UNKNOWN, "it is being done", "", ""

    def _forget_oldest(self) -> None:
        if len(self._told) > _MAX_KNOWN:
            self._told.popitem(last=False)
            self._has_forgotten = True

    def _look(self, order: SteeringOrder) -> Outcome:
        asked = self._find(order.approval_id)
        if asked is None:
            over = any(_name_of(one) == order.approval_id for one in self._stream.settled())
            return SteeringState.LATE if over else SteeringState.ABSENT, "", "", ""
        return SteeringState.PENDING, asked.method, asked.session, asked.frame_id or ""

    def _find(self, name: str) -> OperatorAsked | None:
        """Return what is asked under a name, if it is pending for certain and of a kind that is decided here."""
        if name in self._uncertain:
            return None
        found = (asked for asked in self._stream.questions() if _name_of(asked) == name)
        return next((asked for asked in found if asked.method in _ANSWERS), None)

    async def _decide(self, order: SteeringOrder) -> Outcome:
        until = _deadline(order)
        async with self._turn:  # one at a time: a second decision finds what the first one has done
            try:
                while True:
                    asked = self._find(order.approval_id)
                    if asked is None:
                        return SteeringState.LATE, "it is not pending any more", "", ""
                    outcome = await self._answer(asked, order, until)
                    if outcome is not None:
                        return outcome
            except TimeoutError:
                return SteeringState.UNREACHABLE, "the client went on and on", "", ""

    async def _answer(self, asked: OperatorAsked, order: SteeringOrder, until: float) -> Outcome | None:
        """Send a decision; return what became of it, None where the client had said more, which is read by now.

        Raises:
            TimeoutError: that was not read in time.
        """
        settled: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        line = _line({"id": asked.request_id, "result": {"decision": _decision(asked.method, order)}})
        position = self._read["in"]
        with self._watching(partial(_settle, asked, settled)):
            sent, passed = await self._send(line, order.by, until, position)
            if sent == SENT:
                return await _within(settled, until, asked)
        if sent == MOVED:
            await self._until_read(passed, until)
            return None
        return _CLIENT_BUSY

    async def _request(self, order: SteeringOrder) -> Outcome:
        """Tell a turn something more, or begin one in a thread of the broker's own."""
        if order.thread not in self.own and (order.kind == "start" or not self._stream.has_thread(order.thread)):
            return _NO_THREAD
        params: dict[str, Any] = {"threadId": order.thread, "input": [{"type": "text", "text": order.text}]}
        if order.kind == "steer":
            params["expectedTurnId"] = order.turn
        params |= {name: value for name, value in (("model", order.model), ("effort", order.effort)) if value}
        answer = await self._ask(f"turn/{order.kind}", params, order)
        if not isinstance(answer, ServerMessage):
            return answer
        turn = turn_in(answer.result) or order.turn
        if order.kind == "start":
            self.own.begun(order.thread, turn)
        return SteeringState.DONE, "", order.thread, turn

    async def _open(self, order: SteeringOrder) -> Outcome:
        """Open a thread of the broker's own beside another one, in the same directory; nobody is asked there."""
        if not self._stream.has_thread(order.thread):
            return _NO_THREAD
        params = {"ephemeral": True, "approvalPolicy": "never", "sandbox": order.sandbox}
        answer = await self._ask("thread/start", params | {"cwd": self._stream.cwd_of(order.thread)}, order)
        if not isinstance(answer, ServerMessage):
            return answer
        name = thread_in(answer.result)
        if not name:
            return SteeringState.REFUSED, "the app-server has opened no thread", "", ""
        self._watch_own(name)
        return SteeringState.DONE, "", name, ""

    async def _interrupt(self, order: SteeringOrder) -> Outcome:
        """End the turn that runs in a thread of the broker's own, also where another observer has begun it."""
        is_mine = order.thread in self.own
        self._watch_own(order.thread)
        self._stream.adopt(order.thread)
        turn = self.own.turn_of(order.thread) or ("" if is_mine else order.turn)
        if not turn:  # for a turn that is over it is never answered
            return SteeringState.ABSENT, "no turn runs there", order.thread, order.turn
        answer = await self._ask("turn/interrupt", {"threadId": order.thread, "turnId": turn}, order)
        return (SteeringState.DONE, "", order.thread, turn) if isinstance(answer, ServerMessage) else answer

    def _watch_own(self, name: str) -> None:
        self.own.add(name)
        self._stream.watch = self._see

    async def interrupt_own(self) -> None:
        """End the turns of the broker's own that run: it does not come back."""
        for thread, turn in self.own.running():
            await self._interrupt(SteeringOrder(number=1, kind="interrupt", thread=thread, turn=turn))

    async def refuse_requests(self) -> None:
        """Refuse what the server asks in threads of the broker's own, whenever it does; until cancelled."""
        while True:
            await self.woken.wait()
            self.woken.clear()
            while self.own.refusals:
                async with self._turn:
                    until = asyncio.get_running_loop().time() + _REFUSAL_S
                    sent, passed = await self._send(self.own.refusals[0], "lifebus", until, ANY_POSITION)
                    if sent == SENT:
                        self.own.refusals.popleft()
                        with suppress(TimeoutError):
                            await self._until_read(passed, until)
                    else:  # the server takes nothing now
                        await asyncio.sleep(_PAUSE_S)

    async def _ask(self, method: str, params: dict[str, Any], order: SteeringOrder) -> ServerMessage | Outcome:
        """Send a request of ours; return the server's answer, or what became of the order without a good one."""
        name = f"{self._prefix}{next(self._numbers)}"
        line = _line({"id": name, "method": method, "params": params})
        if len(line) > MAX_LINE_BYTES:
            return SteeringState.UNREACHABLE, f"the line is over {MAX_LINE_BYTES} bytes", "", ""
        answered: asyncio.Future[ServerMessage] = asyncio.get_running_loop().create_future()
        until = _deadline(order)
        with self._watching(partial(_see_answer, name, answered)):
            try:
                async with self._turn:
                    sent, passed = await self._send(line, order.by, until, ANY_POSITION, name)
                    if sent != SENT:
                        return _CLIENT_BUSY
                    await self._until_read(passed, until)  # or it would be taken for the next one's
                async with asyncio.timeout_at(until):
                    answer = await answered
            except TimeoutError:
                return SteeringState.UNKNOWN, "the app-server has not answered", order.thread, order.turn
        if answer.error is not None:
            return SteeringState.REFUSED, answer.error.message[:1_024], order.thread, order.turn
        return answer

    async def _send(self, line: bytes, by: str, until: float, position: int, name: str = "") -> tuple[int, int]:
        """Have a line sent in the first half of the time that is left; the other half is for the server."""
        self.sender = by
        left = until - asyncio.get_running_loop().time()
        return await self._way.send(line, position=position, seconds=max(0.0, left) / 2, request_id=name)

    async def _until_read(self, position: int, until: float) -> None:
        """Wait until all that the client had said is read.

        Raises:
            TimeoutError: it takes too long.
        """
        async with asyncio.timeout_at(until):
            while self._read["in"] < position:
                self._moved.clear()
                await self._moved.wait()

    @contextmanager
    def _watching(self, look: Callable[[ServerMessage], None]) -> Generator[None]:
        """Have each message of the server looked at meanwhile."""
        self._looks.append(look)
        self._stream.watch = self._see
        try:
            yield
        finally:
            self._looks.remove(look)
            if not self._looks and not self.own:
                self._stream.watch = None

    def _see(self, line: bytes) -> None:
        try:
            message = msgspec.json.decode(line, type=ServerMessage)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return
        for look in list(self._looks):
            look(message)
        self.own.see(message)
        if self.own.refusals:
            self.woken.set()


def _deadline(order: SteeringOrder) -> float:
    return asyncio.get_running_loop().time() + order.timeout_ms / 1000


def _name_of(asked: OperatorAsked) -> str:
    return approval_id(asked.session, asked.frame_id, asked.request_id)


def _decision(method: str, order: SteeringOrder) -> object:
    word = _ANSWERS[method][order.decision]
    return _FOR_SESSION.get(word, word) if order.for_session and isinstance(word, str) else word


def _line(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def _settle(asked: OperatorAsked, settled: "asyncio.Future[bool]", message: ServerMessage) -> None:
    """Note whether the server took our answer: what it resolves behind the end of the turn, it took from nobody."""
    params = message.params or {}
    if settled.done() or message.method is None or params.get("threadId") != asked.session:
        return
    if message.method == "serverRequest/resolved" and params.get("requestId") == asked.request_id:
        settled.set_result(True)
    elif message.method == "turn/completed" and turn_in(params) == asked.frame_id:
        settled.set_result(False)


def _see_answer(name: str, answered: "asyncio.Future[ServerMessage]", message: ServerMessage) -> None:
    if message.id == name and message.method is None and not answered.done():
        answered.set_result(message)


async def _within(settled: "asyncio.Future[bool]", until: float, asked: OperatorAsked) -> Outcome:
    """Return what the server made of our answer."""
    where = asked.session, asked.frame_id or ""
    try:
        async with asyncio.timeout_at(until):
            taken = await settled
    except TimeoutError:
        return SteeringState.UNKNOWN, "it was answered, and the app-server has not said so", *where
    return (SteeringState.DONE, "", *where) if taken else (SteeringState.LATE, "the turn was over before", *where)
