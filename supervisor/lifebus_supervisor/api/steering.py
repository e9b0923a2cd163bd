"""The verbs by which observers of app-servers take orders and report what became of them."""

from lifebus_supervisor.api.calls import Call
from lifebus_supervisor.api.table import Handlers
from lifebus_supervisor.app_server.steering import AppServerSteering
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.steering import AwaitOrder, NextOrder, OrderReport


class SteeringVerbs:
    """Serves `steer` and `steered`."""

    def __init__(self, steering: AppServerSteering) -> None:
        self._steering = steering

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        return {"steer": self._steer, "steered": self._steered}

    async def _steer(self, _: Call, body: AwaitOrder) -> NextOrder:
        return NextOrder(order=await self._steering.next_order(body))

    def _steered(self, _: Call, body: OrderReport) -> Nothing:
        self._steering.report(body)
        return Nothing()
