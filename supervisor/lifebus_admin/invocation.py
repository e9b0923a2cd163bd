"""One dispatch without a broker: the router, its rules and a command, on a ledger that is gone afterwards."""

import random
import time
from contextlib import aclosing

import anyio
from msgspec import Struct

from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.clients import CallbackClient
from lifebus_broker.routing.dispatch import EmissionResult
from lifebus_broker.routing.fan_out import Fanout
from lifebus_contract import DispatchEnvelope, IdSource, LifebusError, error_for
from lifebus_supervisor.configuration.adapters import configured_adapters
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.daemon.command_clients import invoker_of
from lifebus_transports.messages.workers import COMMAND
from lifebus_transports.processes.once import Commands
from lifebus_transports.processes.spec import CommandSpec


class Invocation(Struct, frozen=True, kw_only=True):
    """A command that is asked once: as which client, how it is spoken to, and how long it may take in seconds."""

    client_id: str
    spec: CommandSpec
    protocol: str
    deadline: float


class Invoked(Struct, frozen=True, kw_only=True):
    """What became of it: receipts as canonical JSON, in the order of their writing, or why there are none."""

    receipts: tuple[bytes, ...]
    fault: LifebusError | None = None


async def invoke_once(settings: Settings, emitter: str, envelope: DispatchEnvelope, invocation: Invocation) -> Invoked:
    """Dispatch an envelope to a command as its only client, and return what became of it.

    Raises:
        LifebusError: the settings or the manifests they name are wrong.
    """
    fanout = Fanout()
    results: list[EmissionResult] = []
    async with aclosing(await open_unkept(committed=fanout.publish)) as ledger, anyio.create_task_group() as tasks:
        bus = EventBus(
            registry=configured_adapters(settings),
            ledger=ledger,
            fanout=fanout,
            ids=IdSource(lambda: time.time_ns() // 1_000_000, random.SystemRandom().randbytes),
            clock=time.time,
            tasks=tasks,
        )
        bus.clients.add(
            CallbackClient(
                client_id=invocation.client_id,
                events=frozenset({envelope.request.event}),
                invoker=invoker_of(invocation.spec, invocation.protocol, 1, Commands(tasks), tasks),
                deadline=invocation.deadline,
                kind=COMMAND,
            )
        )
        results += await bus.emit(emitter, [envelope.as_emission()])
        # Ends what still runs in the group.
        tasks.cancel_scope.cancel()
    # One emission, one result.
    (result,) = results
    refusal = result.refusal
    if refusal is None:
        return Invoked(receipts=tuple(stored.receipt for stored in result.stored))
    fault = error_for(refusal.failure_class, refusal.detail, retry_class=refusal.retry_class, code=refusal.code)
    return Invoked(receipts=(), fault=fault)
