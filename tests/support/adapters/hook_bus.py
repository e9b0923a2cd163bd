"""Native hook calls through adapter, bus and back: what the hook server does, without the server."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import anyio
from msgspec import structs

from lifebus_adapters import ADAPTERS, HookAnswer, HookCall
from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.ports import Ledger, Query, StoredReceipt
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.dispatch import EmissionResult
from lifebus_broker.routing.fan_out import Fanout
from lifebus_broker.routing.registry import Registry
from lifebus_contract import (
    CallbackResponse,
    DispatchEnvelope,
    LifecycleEvent,
    PayloadEnvelope,
    Receipt,
    ReceiptStatus,
    decode_json,
)
from lifebus_supervisor.hook_intake.calls import HookCalls
from support.adapters.calls import call, ids
from support.patience import PATIENCE_S


class HookBus:
    """A bus with the built-in adapters, and the receipts that it fanned out."""

    def __init__(self, bus: EventBus, published: list[StoredReceipt]) -> None:
        self.bus = bus
        self._published = published

    @property
    def published(self) -> list[Receipt]:
        return [decode_json(one.receipt, Receipt) for one in self._published]

    async def hook(self, adapter_id: str, payload: dict[str, Any], **changes: Any) -> tuple[list[Receipt], HookAnswer]:
        """Return the receipts of a hook call and the native answer."""
        return await self.call(call(adapter_id, payload, **changes))

    async def call(self, native: HookCall) -> tuple[list[Receipt], HookAnswer]:
        """Return what a native hook call added to the ledger, and the native answer."""
        before = self.bus.ledger.head
        answer = await HookCalls(self.bus, ADAPTERS, budget=PATIENCE_S).handle(native)
        page = await self.bus.ledger.read(Query(after=before))
        return [decode_json(one.receipt, Receipt) for one in page.stored], answer

    def deliver(self, event: str, payload: PayloadEnvelope, client_id: str = "test-client") -> None:
        """Register a client that answers an event with a payload of its own."""
        own = structs.replace(payload, client_id=client_id)

        async def answer(_: DispatchEnvelope) -> CallbackResponse:
            return CallbackResponse.ok(ReceiptStatus.DELIVERED, own)

        self.bus.register(client_id, [LifecycleEvent(event)], answer)


def receipts(results: Sequence[EmissionResult]) -> list[Receipt]:
    return [decode_json(one.receipt, Receipt) for result in results for one in result.stored]


@asynccontextmanager
async def hook_bus(ledger: Ledger | None = None) -> AsyncIterator[HookBus]:
    """Run a bus, on a ledger of its own that is not kept unless one is given."""
    published: list[StoredReceipt] = []
    fanout = Fanout()
    fanout.listen(published.extend)
    registry = Registry(adapter.registered for adapter in ADAPTERS.values())
    async with AsyncExitStack() as stack:
        if ledger is None:
            ledger = await stack.enter_async_context(aclosing(await open_unkept(committed=fanout.publish)))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        bus = EventBus(
            registry=registry, ledger=ledger, fanout=fanout, ids=ids(), clock=lambda: 1_800_000_000.0, tasks=tasks
        )
        yield HookBus(bus, published)
        tasks.cancel_scope.cancel()
