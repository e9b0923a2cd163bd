"""A peer as a callback client: dispatches out, responses in."""

import asyncio
import itertools
from functools import partial

import anyio
from anyio.abc import TaskGroup, TaskStatus

from lifebus.client import Bus
from lifebus.stdio.messages import Question, QuestionId, encode_answer, encode_line, verbatim
from lifebus.stdio.writer import Outflow
from lifebus_contract import (
    DispatchEnvelope,
    InvalidRequest,
    LifebusError,
    StateConflict,
    validate,
)
from lifebus_transports.messages.common import Nothing, RefusalInfo
from lifebus_transports.messages.workers import Response, Serve


class Serving:
    """Serves as one callback client at a time; the client library renews the registration and keeps the deadlines."""

    def __init__(self, outflow: Outflow, tasks: TaskGroup) -> None:
        self._outflow = outflow
        self._tasks = tasks
        self._turn = anyio.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Response | InvalidRequest]] = {}
        self._wish: Serve | None = None
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()

    async def serve(self, bus: Bus, question: Question) -> None:
        """Register the peer, or register it anew if it asks for something else than before.

        Raises:
            LifebusError: it cannot be understood, or the broker refused.
        """
        wish = validate(question.body, Serve)
        async with self._turn:
            if wish != self._wish:
                await self._end()
                await self._tasks.start(self._serve, bus, wish)
        await self._outflow.put(encode_answer(question.id, {}))

    async def leave(self, question: Question) -> None:
        """Serve no longer."""
        validate(question.body, Nothing)
        await self.close()
        await self._outflow.put(encode_answer(question.id, {}))

    async def close(self) -> None:
        """Serve no longer; what is still under way becomes a `transport_error`."""
        async with self._turn:
            await self._end()

    async def respond(self, message: Question) -> None:
        """Take the answer to a dispatch; the peer is told of one that is of no use."""
        waiting = self._waiting.get(message.id) if isinstance(message.id, int) else None
        if waiting is None or waiting.done():
            detail = f"nobody waits for dispatch {message.id}: its deadline has passed, or it was answered"
            await self._tell(message.id, StateConflict(detail, code="not_waiting"))
            return
        try:
            waiting.set_result(_said(validate(message.body, Response)))
        except InvalidRequest as fault:
            waiting.set_result(fault)
            await self._tell(message.id, fault)

    async def _tell(self, dispatch: QuestionId, fault: LifebusError) -> None:
        await self._outflow.put(encode_line({"dispatch": dispatch, "refused": RefusalInfo.of(fault)}))

    async def _serve(self, bus: Bus, wish: Serve, *, task_status: TaskStatus[None]) -> None:
        """Serve until `_end`; what ends it from the other side is told to the peer, or raised if it never began."""
        scope, ended = anyio.CancelScope(), anyio.Event()
        self._wish, self._scope, self._ended = wish, scope, ended
        lost: LifebusError | None = None
        begun = False

        def begin() -> None:
            nonlocal begun
            begun = True
            task_status.started()

        try:
            with scope:
                await bus.serve(
                    wish.events,
                    partial(self._ask, wish),
                    adapters=wish.adapters,
                    requirements=wish.requirements,
                    deadline=wish.deadline_ms / 1000,
                    client_id=wish.client_id,
                    on_ready=begin,
                )
        except LifebusError as fault:
            if not begun:
                raise
            lost = fault
        finally:
            self._wish = None
            ended.set()
        if lost is not None:
            await self._outflow.put(encode_line({"serving": wish.client_id, "refused": RefusalInfo.of(lost)}))

    async def _end(self) -> None:
        if self._wish is not None:
            self._scope.cancel()
            await self._ended.wait()

    async def _ask(self, wish: Serve, envelope: DispatchEnvelope) -> Response:
        """Put a dispatch on the way out and return the response to it."""
        number = next(self._numbers)
        waiting: asyncio.Future[Response | InvalidRequest] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        dispatch = {"dispatch": number, "client_id": wish.client_id, "envelope": verbatim(envelope)}
        try:
            await self._outflow.put(encode_line({**dispatch, "deadline_ms": wish.deadline_ms}))
            outcome = await waiting
        finally:
            del self._waiting[number]
        if isinstance(outcome, InvalidRequest):
            raise outcome
        return outcome


def _said(answer: Response) -> Response:
    """Return an answer that says something.

    Raises:
        InvalidRequest: it holds neither a response nor a refusal.
    """
    if answer.response is None and answer.refusal is None:
        raise InvalidRequest("$: neither a response nor a refusal", code="against_contract", field="$")
    return answer
