"""The verbs that say how the broker is: `status`, `clients`, `manifests` and `ping`."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.clients import CallbackClient
from lifebus_contract import CONTRACT_VERSION, AdapterManifest
from lifebus_supervisor.api.calls import Call
from lifebus_supervisor.api.table import Handlers
from lifebus_supervisor.version import VERSION
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.state import BackupStatus, RetentionStatus, ScrubStatus
from lifebus_transports.messages.status import BrokerStatus, HarnessStatus, WaitingSession
from lifebus_transports.messages.workers import ClientInfo


class StatusVerbs:
    """Serves the verbs that say how a bus and what runs beside it are.

    What is callable is asked at each `status`.
    """

    def __init__(  # noqa: PLR0913  one for each part of the answer
        self,
        bus: EventBus,
        directories: tuple[Path, Path],
        *,
        counters: Callable[[], Mapping[str, int]],
        unknown_adapters: Callable[[], tuple[str, ...]],
        harnesses: Callable[[], tuple[HarnessStatus, ...]],
        waiting: Callable[[], tuple[WaitingSession, ...]],
        retention: Callable[[], RetentionStatus | None],
        scrub: Callable[[], ScrubStatus | None],
        backup: Callable[[], BackupStatus | None],
    ) -> None:
        self._bus = bus
        self._runtime_dir, self._state_dir = directories
        self._counters = counters
        self._unknown_adapters = unknown_adapters
        self._harnesses = harnesses
        self._waiting = waiting
        self._retention = retention
        self._scrub = scrub
        self._backup = backup
        self._started = time.monotonic()

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        return {
            "ping": lambda _, __: Nothing(),
            "status": lambda _, __: self.describe(),
            "clients": self._clients,
            "manifests": self._manifests,
        }

    def describe(self) -> BrokerStatus:
        """Return how the broker is."""
        return BrokerStatus(
            version=VERSION,
            contract_version=CONTRACT_VERSION,
            pid=os.getpid(),
            uptime_s=int(time.monotonic() - self._started),
            runtime_dir=str(self._runtime_dir),
            state_dir=str(self._state_dir),
            ledger=self._bus.ledger.status(),
            clients=len(self._bus.clients.all()),
            counters=dict(self._counters()),
            unknown_adapters=self._unknown_adapters(),
            harnesses=self._harnesses(),
            waiting=self._waiting(),
            retention=self._retention(),
            scrub=self._scrub(),
            backup=self._backup(),
        )

    def _clients(self, _: Call, __: Nothing) -> list[ClientInfo]:
        return [_client_info(client) for client in self._bus.clients.all()]

    def _manifests(self, _: Call, __: Nothing) -> list[AdapterManifest]:
        return [registered.manifest for registered in self._bus.registry.all()]


def _client_info(client: CallbackClient) -> ClientInfo:
    return ClientInfo(
        client_id=client.client_id,
        kind=client.kind,
        # Sorted, because sets have no order and the answer is compared by people and tests.
        events=tuple(sorted(client.events)),
        adapters=tuple(sorted(client.adapters)),
        deadline_ms=int(client.deadline * 1000),
        dispatched=client.dispatched,
        failed=client.failed,
        background=client.background,
    )
