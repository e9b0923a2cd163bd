"""A bus without sockets, on a ledger that is not kept, and clients for tests."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import count
from typing import Any

import anyio

from lifebus_adapters import ADAPTERS
from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.ports import Query
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.dispatch import EmissionResult
from lifebus_broker.routing.fan_out import Fanout
from lifebus_broker.routing.registry import Registry
from lifebus_contract import (
    CallbackRequest,
    CallbackResponse,
    DispatchEnvelope,
    Emission,
    IdSource,
    LifecycleEvent,
    PayloadEnvelope,
    Receipt,
    ReceiptStatus,
    validate,
)
from lifebus_contract.codec import decode_receipt

EVENT = LifecycleEvent.SESSION_STARTED
NOW = 1_790_000_000
_NUMBERS = count(1)


@asynccontextmanager
async def bus_box(**options: Any) -> AsyncIterator[EventBus]:
    """A bus with the built-in adapters; its clock stands still."""
    fanout = Fanout()
    async with aclosing(await open_unkept(committed=fanout.publish)) as ledger, anyio.create_task_group() as tasks:
        yield EventBus(
            registry=Registry([adapter.registered for adapter in ADAPTERS.values()]),
            ledger=ledger,
            fanout=fanout,
            ids=IdSource(lambda: NOW * 1_000, os.urandom),
            clock=lambda: NOW,
            tasks=tasks,
            **options,
        )


def request(**fields: Any) -> CallbackRequest:
    number = next(_NUMBERS)
    plain = {
        "schema_version": "lifeloop.v0.2",
        "event": EVENT,
        "event_id": f"evt_{number}",
        "adapter_id": "codex",
        "adapter_version": "0.1.0",
        "invocation_id": f"inv_{number}",
        "integration_mode": "native_hook",
        "harness_session_id": "s1",
        **fields,
    }
    return validate(plain, CallbackRequest)


def emission(*payloads: PayloadEnvelope, requirements: Sequence[Any] = (), **fields: Any) -> Emission:
    return Emission(request=request(**fields), payloads=payloads, requirements=tuple(requirements))


def payload(client_id: str = "emitter", body: str = "hello", **fields: Any) -> PayloadEnvelope:
    plain = {
        "schema_version": "lifeloop.v0.2",
        "payload_id": f"pay_{next(_NUMBERS)}",
        "client_id": client_id,
        "payload_kind": "note",
        "format": "text/plain",
        "content_encoding": "utf8",
        "byte_size": len(body.encode()),
        "body": body,
        "acceptable_placements": [{"placement": "pre_prompt_frame", "requirement": "required"}],
        **fields,
    }
    return validate(plain, PayloadEnvelope)


def answering(*payloads: PayloadEnvelope) -> Callable[[DispatchEnvelope], Awaitable[CallbackResponse]]:
    """A client that answers at once, with payloads if there are any."""

    async def answer(_: DispatchEnvelope) -> CallbackResponse:
        return CallbackResponse.ok(ReceiptStatus.DELIVERED if payloads else ReceiptStatus.OBSERVED, *payloads)

    return answer


def raising(fault: BaseException) -> Callable[[DispatchEnvelope], Awaitable[CallbackResponse]]:
    async def answer(_: DispatchEnvelope) -> CallbackResponse:
        raise fault

    return answer


def returning(value: Any) -> Callable[[DispatchEnvelope], Awaitable[CallbackResponse]]:
    async def answer(_: DispatchEnvelope) -> Any:
        return value

    return answer


async def hang(_: DispatchEnvelope) -> CallbackResponse:
    await anyio.sleep_forever()
    raise AssertionError("nobody wakes it")


def receipts_of(result: EmissionResult) -> dict[str, Receipt]:
    """Return the receipts of a result by client; there is one each."""
    assert result.refusal is None, result.refusal
    found = [decode_receipt(one.receipt) for one in result.stored]
    by_client = {receipt.client_id: receipt for receipt in found}
    assert len(by_client) == len(found)
    return by_client


async def recorded(bus: EventBus) -> list[Receipt]:
    page = await bus.ledger.read(Query(limit=1_000))
    return [decode_receipt(one.receipt) for one in page.stored]
