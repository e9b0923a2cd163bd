"""What came out of a client, as a failure class; and cancellation, which is nobody's answer."""

import asyncio

import anyio
import msgspec
import pytest

from lifebus_broker.ports import Refusal
from lifebus_broker.routing.clients import CallbackClient, ClientHandler, FunctionInvoker
from lifebus_broker.routing.invocation import ask, explain
from lifebus_contract import (
    CallbackResponse,
    DispatchEnvelope,
    FailureClass,
    LifebusError,
    RetryClass,
    TransportError,
)
from support.bus_box import EVENT, answering, hang, raising, request

ENVELOPE = DispatchEnvelope(schema_version="lifeloop.v0.2", request=request())


def client(handler: ClientHandler) -> CallbackClient:
    return CallbackClient(client_id="client", events=frozenset({EVENT}), invoker=FunctionInvoker(handler))


@pytest.mark.parametrize(
    ("fault", "failure", "retry"),
    [
        (TimeoutError(), FailureClass.TIMEOUT, RetryClass.SAFE_RETRY),
        (OSError(), FailureClass.TRANSPORT_ERROR, RetryClass.SAFE_RETRY),
        (ValueError(), FailureClass.TRANSPORT_ERROR, RetryClass.SAFE_RETRY),
        (TransportError("gone"), FailureClass.TRANSPORT_ERROR, RetryClass.SAFE_RETRY),
        (msgspec.ValidationError("no"), FailureClass.INVALID_REQUEST, RetryClass.DO_NOT_RETRY),
        (
            LifebusError("x", failure_class=FailureClass.TIMEOUT, retry_class=RetryClass.DO_NOT_RETRY),
            FailureClass.TIMEOUT,
            RetryClass.DO_NOT_RETRY,
        ),
    ],
)
def test_every_fault_has_a_failure_and_a_retry_class(
    fault: Exception, failure: FailureClass, retry: RetryClass
) -> None:
    refusal = explain(fault, 1.0)
    assert (refusal.failure_class, refusal.retry_class) == (failure, retry)


@pytest.mark.parametrize("secret", ["tok_SECRET", "/home/dev/private"])
def test_the_text_of_a_crash_stays_out_of_the_receipt(secret: str) -> None:
    assert secret not in explain(RuntimeError(secret), 1.0).detail


async def test_answers_and_failures_are_counted() -> None:
    good, bad = client(answering()), client(raising(RuntimeError()))
    assert isinstance(await ask(good, ENVELOPE, 1.0, {}), CallbackResponse)
    assert isinstance(await ask(bad, ENVELOPE, 1.0, {}), Refusal)
    assert [(one.dispatched, one.failed) for one in (good, bad)] == [(1, 0), (1, 1)]


async def test_no_time_left_is_a_timeout_and_not_an_endless_wait() -> None:
    refusal = await ask(client(hang), ENVELOPE, 0.0, {})
    assert isinstance(refusal, Refusal)
    assert refusal.failure_class is FailureClass.TIMEOUT


async def test_a_client_that_cancels_itself_has_crashed() -> None:
    refusal = await ask(client(raising(asyncio.CancelledError())), ENVELOPE, 1.0, {})
    assert isinstance(refusal, Refusal)
    assert (refusal.failure_class, refusal.code) == (FailureClass.TRANSPORT_ERROR, "crashed")


async def test_cancelling_the_caller_goes_through_the_client() -> None:
    asking = asyncio.ensure_future(ask(client(hang), ENVELOPE, 60.0, {}))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    with anyio.CancelScope() as scope:
        scope.cancel()
        await ask(client(hang), ENVELOPE, 60.0, {})
    assert scope.cancelled_caught
