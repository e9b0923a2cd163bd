"""The renewal flows of a daemon: one background client of the bus for each enabled profile."""

import time
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskGroup

from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.clients import CallbackClient
from lifebus_broker.routing.renewal import Posture, posture_of
from lifebus_contract import CallbackRequest, LifebusError
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.renewal.client import CommandRunner, RenewalClient
from lifebus_supervisor.renewal.flow import EVENTS, RenewalFlow
from lifebus_supervisor.renewal.profile import RenewalSettings
from lifebus_supervisor.renewal.recovery import recover, unfinished_ids
from lifebus_supervisor.renewal.store import ContinuationStore, open_store

KIND: Final = "renewal"
"""The kind of these callback clients."""

_SWEEP_S: Final = 60.0
_SLACK_S: Final = 5.0
_log = structlog.get_logger("lifebus.renewal")


async def start_renewals(
    settings: Settings, bus: EventBus, run: CommandRunner, tasks: TaskGroup
) -> tuple[RenewalFlow, ...]:
    """Register the clients of all enabled profiles and resume unfinished renewals; nothing without profiles."""
    store = open_store(settings.state_dir)
    flows = tuple(_flow(one, bus, store, run) for one in settings.renewals)
    for flow in flows:
        # before the client is added: what it prepares from now on is not unfinished
        unfinished = await unfinished_ids(flow)
        bus.clients.add(_client(flow))
        tasks.start_soon(recover, flow, bus, unfinished)
    if flows:
        tasks.start_soon(_sweep, store)
    return flows


def _flow(settings: RenewalSettings, bus: EventBus, store: ContinuationStore, run: CommandRunner) -> RenewalFlow:
    client = RenewalClient(settings, run)
    return RenewalFlow(settings, store, client, posture=partial(_posture, bus), ids=bus.ids, clock=time.time)


def _client(flow: RenewalFlow) -> CallbackClient:
    """Return the flow as a client; its deadline has room for the turn before it in the same directory."""
    settings = flow.settings
    offer, use = settings.recommend_ms + settings.prepare_ms, settings.consume_ms
    return CallbackClient(
        client_id=settings.client_id,
        events=frozenset(EVENTS),
        invoker=flow,
        adapters=frozenset({settings.adapter}),
        deadline=(2 * offer + use) / 1000 + _SLACK_S,
        kind=KIND,
        background=True,
    )


def _posture(bus: EventBus, request: CallbackRequest) -> Posture:
    losses = bus.capabilities.overrides(request.adapter_id, request.harness_session_id)
    return posture_of(bus.registry.require(request.adapter_id), losses)


async def _sweep(store: ContinuationStore) -> None:
    """Sweep the store every minute."""
    while True:
        await anyio.sleep(_SWEEP_S)
        try:
            await anyio.to_thread.run_sync(store.sweep)
        except (LifebusError, OSError) as fault:
            _log.warning("renewals_not_swept", fault=type(fault).__name__)
