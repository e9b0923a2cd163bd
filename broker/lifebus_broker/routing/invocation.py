"""Asks one callback client and returns every failure as a value.

A client that hangs, crashes or answers nonsense fails its own receipt and delays nobody else (docs/contract.md 8.1).
"""

import asyncio

import anyio
import msgspec
import structlog

from lifebus_broker.ports import Evidence, Refusal
from lifebus_broker.routing.clients import CallbackClient
from lifebus_contract import (
    CallbackResponse,
    DispatchEnvelope,
    InvalidRequest,
    LifebusError,
    TransportError,
    validate,
)

_log = structlog.get_logger("lifebus.clients")


async def ask(
    client: CallbackClient, envelope: DispatchEnvelope, seconds: float, evidence: Evidence
) -> CallbackResponse | Refusal:
    """Return the client's valid answer, or why there is none.  Never raises but for cancellation.

    `evidence` takes what the invoker saw of the client, whatever came of it.
    """
    client.dispatched += 1  # counted before the call, so that one that hangs is visible in the status
    answer: CallbackResponse | Refusal
    try:
        with anyio.fail_after(seconds):
            answer = _checked(client, await _invoke(client, envelope, evidence))
    except Exception as fault:  # noqa: BLE001  whatever a client raises becomes its own receipt
        answer = explain(fault, seconds)
        _log.warning(
            "client_failed", client_id=client.client_id, failure=answer.failure_class.value, fault=type(fault).__name__
        )
    if isinstance(answer, Refusal):
        client.failed += 1
    return answer


async def _invoke(client: CallbackClient, envelope: DispatchEnvelope, evidence: Evidence) -> object:
    """Ask the client; a cancellation that it raised by itself is a crash and does not cancel the other clients.

    Raises:
        TransportError: the client cancelled itself.
        Exception: whatever else comes out of the client.
    """
    task = asyncio.current_task()
    try:
        return await client.invoker.invoke(envelope, evidence)
    except asyncio.CancelledError:
        if task is None or task.cancelling():
            raise  # the dispatch itself is cancelled
        raise TransportError("the client cancelled itself", code="crashed") from None


def explain(fault: Exception, seconds: float) -> Refusal:
    """Return the refusal that stands for an exception of a client (docs/contract.md 7.1)."""
    # The order matters: a LifebusError of an invoker knows its class best, and TimeoutError is an OSError.
    if isinstance(fault, TimeoutError):
        return Refusal.of("deadline", f"no answer within {seconds:g} s")
    if isinstance(fault, LifebusError):
        return Refusal(
            failure_class=fault.failure_class, detail=fault.detail, asked_retry=fault.retry_class, code=fault.code
        )
    if isinstance(fault, msgspec.DecodeError):
        return Refusal.of("bad_answer", str(fault)[:512])
    if isinstance(fault, OSError):
        return Refusal.of("unreachable", f"the client cannot be reached: {type(fault).__name__}")
    return Refusal.of("crashed", f"the client crashed: {type(fault).__name__}")


def _checked(client: CallbackClient, response: object) -> CallbackResponse:
    """Return the response if it is one and carries payloads of this client only.

    Raises:
        InvalidRequest: it is no response, or carries payloads of another client.
    """
    if not isinstance(response, CallbackResponse):
        raise InvalidRequest(f"the client answered a {type(response).__name__}, not a response", code="bad_answer")
    checked = validate(response, CallbackResponse)  # an in-process client builds structs that nothing checked
    for payload in checked.client_payloads:
        if payload.client_id != client.client_id:
            raise InvalidRequest("the response carries a payload of another client", code="bad_answer")
    return checked
