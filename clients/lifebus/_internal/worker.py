"""A callback client over ZeroMQ: registers, answers dispatches, stays registered."""

from collections.abc import Awaitable, Callable
from typing import cast

import anyio
from anyio.abc import TaskGroup

from lifebus._internal.connection import Connection
from lifebus._internal.log import ClientLogger
from lifebus_contract import (
    BrokerBusy,
    CallbackResponse,
    DeadlineExceeded,
    DispatchEnvelope,
    FailureClass,
    InvalidRequest,
    LifebusError,
    TransportError,
    decode_msgpack,
    encode_msgpack,
    validate,
)
from lifebus_contract.fields import MAX_MESSAGE_BYTES
from lifebus_transports.messages.common import Nothing, RefusalInfo
from lifebus_transports.messages.workers import Dispatch, Response, Serve

_log = ClientLogger("lifebus.worker")

Handler = Callable[[DispatchEnvelope], Awaitable[CallbackResponse | Response]]
"""What a callback client does with one dispatch.  A `Response` may carry evidence with the answer or the refusal."""

_FIRST_S = 5.0
_REFRESH_S = 1.0
_MAX_RUNNING = 64


async def serve(connection: Connection, registration: Serve, handler: Handler, on_ready: Callable[[], None]) -> None:
    """Answer dispatches under a registration until cancelled; `on_ready` is called when the broker has taken it.

    Raises:
        LifebusError: the broker refused the registration, or the connection serves already.
    """
    if connection.on_push is not None:
        raise InvalidRequest("this connection already serves; open another one", code="already_serving")
    try:
        async with anyio.create_task_group() as tasks:
            connection.on_push = _Dispatches(connection, handler, tasks, registration.deadline_ms / 1000)
            try:
                # From here on: a broker that comes while the first one is asked knows of no registration.
                connection.connected.clear()
                await connection.ask("serve", registration, Nothing, timeout=_FIRST_S)
                on_ready()
                await _keep_registered(connection, registration)
            finally:
                connection.on_push = None
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await _unregister(connection)
    except BaseExceptionGroup as group:  # before 3.11.4 an error raised in `except*` arrives in a group of its own
        raise _refusal_in(group) from None


def _refusal_in(group: BaseException) -> BaseException:
    """Return the refusal that a group holds, alone or in further groups; else the group itself."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", found).exceptions
        if len(inner) != 1:
            return group
        found = inner[0]
    return found if isinstance(found, LifebusError) else group


class _Dispatches:
    """Runs one task a dispatch, at most 64 at once; the rest are refused as busy."""

    def __init__(self, connection: Connection, handler: Handler, tasks: TaskGroup, deadline: float) -> None:
        self._connection = connection
        self._handler = handler
        self._tasks = tasks
        self._deadline = deadline
        self._running = 0

    def __call__(self, number: int, verb: str, body: bytes) -> None:
        if verb != "dispatch":
            return
        if self._running >= _MAX_RUNNING:
            self._reply(number, BrokerBusy("the worker is at its limit", code="busy"))
            return
        self._running += 1  # here, not in the task: many dispatches may come before the first task runs
        self._tasks.start_soon(self._answer, number, body)

    async def _answer(self, number: int, body: bytes) -> None:
        try:
            with anyio.fail_after(self._deadline):
                answer = await self._handler(decode_msgpack(body, Dispatch).envelope)
            # Validated here, so that a defect of the handler is its own error and not the broker's refusal.
            whole = answer if isinstance(answer, Response) else Response(response=validate(answer, CallbackResponse))
            self._reply(number, validate(whole, Response))
        except LifebusError as fault:
            self._reply(number, fault)
        except TimeoutError:
            self._reply(number, DeadlineExceeded("the handler did not answer within its deadline"))
        except Exception as fault:  # noqa: BLE001  a handler's defect is its own receipt, not the worker's end
            _log.exception("handler_failed", fault=type(fault).__name__)
            self._reply(number, TransportError(f"the handler failed: {type(fault).__name__}", code="crashed"))
        finally:
            self._running -= 1

    def _reply(self, number: int, outcome: Response | LifebusError) -> None:
        if isinstance(outcome, LifebusError):
            outcome = Response(refusal=RefusalInfo.of(outcome))
        message = encode_msgpack(outcome)
        # The broker would drop the whole connection, and with it every open request.
        if len(message) > MAX_MESSAGE_BYTES:
            fault = LifebusError("the response is too large", failure_class=FailureClass.PAYLOAD_TOO_LARGE)
            message = encode_msgpack(Response(refusal=RefusalInfo.of(fault), evidence=outcome.evidence))
        try:
            self._connection.push(number, "response", message)
        except BrokerBusy:
            _log.warning("response_dropped", reason="the broker does not read")


async def _keep_registered(connection: Connection, registration: Serve) -> None:
    """Renew the registration each second, and at once where a socket came to a broker that may be a new one."""
    while True:
        with anyio.move_on_after(_REFRESH_S):
            await connection.connected.wait()
        connection.connected.clear()
        try:
            # The broker drops registrations that are not renewed, and a new broker knows none.
            await connection.ask("serve", registration, Nothing, timeout=_REFRESH_S)
        except (DeadlineExceeded, BrokerBusy):
            _log.info("registration_unanswered")


async def _unregister(connection: Connection) -> None:
    try:
        await connection.ask("leave", Nothing(), Nothing, timeout=0.2)
    except LifebusError:
        _log.info("unregister_unanswered")
