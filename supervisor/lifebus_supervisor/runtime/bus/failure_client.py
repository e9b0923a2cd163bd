"""The callback client of runs: its receipts carry the failure and retry class of what a run reports.

It is registered only while some run goes on, so that nobody else's emissions are looked at for it.
"""

from typing import Final

from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.clients import CallbackClient, FunctionInvoker
from lifebus_contract import CallbackResponse, DispatchEnvelope, LifecycleEvent
from lifebus_contract.vocabulary import FLOW_ADAPTER
from lifebus_supervisor.runtime.bus.receipt_emitter import FAILURES
from lifebus_supervisor.runtime.bus.receipts import failure_of

_EVENTS: Final = frozenset({LifecycleEvent.FRAME_ENDED, LifecycleEvent.SUPERVISOR_TICK})


async def classify(envelope: DispatchEnvelope) -> CallbackResponse:
    """Return the failure of an event of a run, by its facts."""
    failure = failure_of(envelope.request.event, envelope.telemetry)
    return CallbackResponse.ok() if failure is None else CallbackResponse.failed(*failure)


class FailureClient:
    """The client, registered for as long as it is needed."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._client = CallbackClient(
            client_id=FAILURES,
            events=_EVENTS,
            invoker=FunctionInvoker(classify),
            adapters=frozenset({FLOW_ADAPTER}),
        )
        self._is_registered = False

    def need(self, is_needed: bool) -> None:
        """Register the client, or take it away again."""
        if is_needed and not self._is_registered:
            self._bus.clients.add(self._client)
        elif self._is_registered and not is_needed:
            self._bus.clients.remove(self._client)
        self._is_registered = is_needed
