"""A peer as a callback client: dispatches out, responses in."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
from anyio.abc import TaskGroup, TaskStatus

from lifebus.stdio.broker_api import BrokerApi
from lifebus.stdio.writer import LineWriter
from lifebus_contract import (
    DispatchEnvelope,
    InvalidRequest,
    LifebusError,
    StateConflict,
    validate,
)
from lifebus_transports.framing.json_lines import LineRequest, RequestId, encode_answer, encode_line, verbatim
from lifebus_transports.messages.common import Nothing, RefusalInfo
from lifebus_transports.messages.workers import Response, Serve


class Registration:
    """Serves as one callback client at a time; the client library renews the registration and keeps the deadlines."""

    def __init__(self, api: BrokerApi, lines: LineWriter, tasks: TaskGroup) -> None:
        self._api = api
        self._lines = lines
        self._tasks = tasks
        self._turn = anyio.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Response | InvalidRequest]] = {}
        self._present: Serve | None = None
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()

    def handlers(self) -> dict[str, Callable[[LineRequest], Awaitable[None]]]:
        """Return what serves each verb of a callback client; `response` answers a line of ours, and is no request."""
        return {"serve": self.serve, "leave": self.leave}

    async def serve(self, request: LineRequest) -> None:
        """Register the peer, or register it anew if its body differs from the present one.

        Raises:
            LifebusError: it cannot be understood, or the broker refused.
        """
        registration = validate(request.body, Serve)
        async with self._turn:
            # The same body again renews nothing and ends nothing: the client library renews by itself.
            if registration != self._present:
                await self._end()
                await self._tasks.start(self._serve, registration)
        await self._lines.put(encode_answer(request.id, {}))

    async def leave(self, request: LineRequest) -> None:
        """Serve no longer."""
        validate(request.body, Nothing)
        await self.close()
        await self._lines.put(encode_answer(request.id, {}))

    async def close(self) -> None:
        """Serve no longer; what is still under way becomes a `transport_error`."""
        async with self._turn:
            await self._end()

    async def respond(self, message: LineRequest) -> None:
        """Take the response to a dispatch; one that is of no use is refused."""
        waiting = self._waiting.get(message.id) if isinstance(message.id, int) else None
        if waiting is None or waiting.done():
            detail = f"nobody waits for dispatch {message.id}: its deadline has passed, or it was answered"
            await self._refuse(message.id, StateConflict(detail, code="not_waiting"))
            return
        try:
            waiting.set_result(_checked(validate(message.body, Response)))
        except InvalidRequest as fault:
            # The dispatch fails now, with what is wrong, and not at its deadline.
            waiting.set_result(fault)
            await self._refuse(message.id, fault)

    async def _refuse(self, dispatch: RequestId, fault: LifebusError) -> None:
        await self._lines.put(encode_line({"dispatch": dispatch, "refused": RefusalInfo.of(fault)}))

    async def _serve(self, registration: Serve, *, task_status: TaskStatus[None]) -> None:
        """Serve until `_end`; what ends it from the broker's side is written, or raised if it never began."""
        scope, ended = anyio.CancelScope(), anyio.Event()
        self._present, self._scope, self._ended = registration, scope, ended
        lost: LifebusError | None = None
        begun = False

        def begin() -> None:
            nonlocal begun
            begun = True
            task_status.started()

        try:
            with scope:
                await self._api.serve(registration, partial(self._ask, registration), begin)
        except LifebusError as fault:
            # Raised by `start`, and so the answer to the `serve` that asked.
            if not begun:
                raise
            lost = fault
        finally:
            self._present = None
            ended.set()
        if lost is not None:
            await self._lines.put(encode_line({"serving": registration.client_id, "refused": RefusalInfo.of(lost)}))

    async def _end(self) -> None:
        if self._present is not None:
            self._scope.cancel()
            await self._ended.wait()

    async def _ask(self, registration: Serve, envelope: DispatchEnvelope) -> Response:
        """Put a dispatch on the way out and return the response to it."""
        number = next(self._numbers)
        waiting: asyncio.Future[Response | InvalidRequest] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        dispatch = {"dispatch": number, "client_id": registration.client_id, "envelope": verbatim(envelope)}
        try:
            await self._lines.put(encode_line({**dispatch, "deadline_ms": registration.deadline_ms}))
            outcome = await waiting
        finally:
            del self._waiting[number]
        if isinstance(outcome, InvalidRequest):
            raise outcome
        return outcome


def _checked(answer: Response) -> Response:
    """Return a response that holds something.

    Raises:
        InvalidRequest: it holds neither a response nor a refusal.
    """
    if answer.response is None and answer.refusal is None:
        raise InvalidRequest("$: neither a response nor a refusal", code="against_contract", field="$")
    return answer
