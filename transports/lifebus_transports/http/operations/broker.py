"""The routes about the broker itself: its health, its state, its adapters, tickets, and what describes the gateway."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from lifebus_contract import AdapterManifest
from lifebus_transports.http.access.tickets import TICKET_S, Tickets
from lifebus_transports.http.operations.operation import (
    OK,
    NoFields,
    Operation,
    PageNeeds,
    RouteReply,
    RouteRequest,
    Served,
)
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.status import BrokerStatus


class HealthAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The broker answers."""

    status: Literal["ok"] = OK
    version: str
    contract_version: str


class LedgerHealth(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the ledger stands, and whether it takes records."""

    epoch: str
    head: int
    floor: int
    writable: bool


class HarnessHealth(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the broker sees of one harness; ages are in whole seconds."""

    adapter_id: str
    sessions: int
    open_frames: int
    last_event: str | None
    last_event_age_s: int | None
    last_hook_age_s: int | None
    silent: tuple[str, ...]
    degraded: tuple[str, ...]


class GatewayStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the broker is.  Only what stands here is shown: no paths, no process, no settings."""

    status: Literal["ok"] = OK
    version: str
    contract_version: str
    uptime_s: int
    ledger: LedgerHealth
    clients: int
    counters: dict[str, int]
    harnesses: tuple[HarnessHealth, ...]


class CapabilitiesAnswer(Struct, frozen=True, kw_only=True):
    """The manifests of all adapters, as they are written; what is weaker now, receipts of the sessions say."""

    status: Literal["ok"] = OK
    data: tuple[AdapterManifest, ...]


class Ticket(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a page appends to the address of a stream as `ticket`: good once, for half a minute."""

    status: Literal["ok"] = OK
    ticket: str
    expires_in_s: int


OPERATIONS = (
    Operation(
        name="health",
        method="GET",
        path="/api/health",
        summary="Says that the broker answers.",
        tag="broker",
        answers={200: HealthAnswer},
    ),
    Operation(
        name="status",
        method="GET",
        path="/api/status",
        summary="Says how the broker is.",
        tag="broker",
        answers={200: GatewayStatus},
    ),
    Operation(
        name="capabilities",
        method="GET",
        path="/api/capabilities",
        summary="Lists what each harness can do, with the evidence for it.",
        tag="broker",
        answers={200: CapabilitiesAnswer},
    ),
    Operation(
        name="giveTicket",
        method="POST",
        path="/api/tickets",
        summary="Gives a ticket for one stream, for pages that cannot set headers.",
        tag="broker",
        body=NoFields,
        answers={201: Ticket},
        page=PageNeeds.READ,
    ),
    Operation(
        name="openapi",
        method="GET",
        path="/api/openapi.json",
        summary="Describes the routes (OpenAPI 3.1).",
        tag="broker",
        answers={200: dict[str, Any]},
    ),
    Operation(
        name="asyncapi",
        method="GET",
        path="/api/asyncapi.json",
        summary="Describes the streams (AsyncAPI 3.0).",
        tag="broker",
        answers={200: dict[str, Any]},
    ),
)


class BrokerRoutes:
    """Serves them; `documents` make the two descriptions."""

    def __init__(self, tickets: Tickets, documents: Mapping[str, Callable[[], dict[str, Any]]]) -> None:
        self._tickets = tickets
        self._documents = documents

    def served(self) -> Served:
        """Return what serves each operation."""
        return {
            "health": self._health,
            "status": self._status,
            "capabilities": self._capabilities,
            "giveTicket": self._give,
            "openapi": self._openapi,
            "asyncapi": self._asyncapi,
        }

    async def _health(self, asked: RouteRequest) -> HealthAnswer:
        found: BrokerStatus = await asked.calls.call(asked.peer, "status", Nothing())
        return HealthAnswer(version=found.version, contract_version=found.contract_version)

    async def _status(self, asked: RouteRequest) -> GatewayStatus:
        found: BrokerStatus = await asked.calls.call(asked.peer, "status", Nothing())
        ledger = found.ledger
        return GatewayStatus(
            version=found.version,
            contract_version=found.contract_version,
            uptime_s=found.uptime_s,
            ledger=LedgerHealth(epoch=ledger.epoch, head=ledger.head, floor=ledger.floor, writable=ledger.writable),
            clients=found.clients,
            counters=found.counters,
            harnesses=tuple(
                HarnessHealth(
                    adapter_id=one.adapter_id,
                    sessions=one.sessions,
                    open_frames=one.open_frames,
                    last_event=one.last_event,
                    last_event_age_s=one.last_event_age_s,
                    last_hook_age_s=one.last_hook_age_s,
                    silent=one.silent,
                    degraded=one.degraded,
                )
                for one in found.harnesses
            ),
        )

    async def _capabilities(self, asked: RouteRequest) -> CapabilitiesAnswer:
        found: list[AdapterManifest] = await asked.calls.call(asked.peer, "manifests", Nothing())
        return CapabilitiesAnswer(data=tuple(found))

    async def _give(self, _: RouteRequest) -> RouteReply:
        return RouteReply(201, Ticket(ticket=self._tickets.give(), expires_in_s=int(TICKET_S)))

    async def _openapi(self, _: RouteRequest) -> dict[str, Any]:
        return self._documents["openapi"]()

    async def _asyncapi(self, _: RouteRequest) -> dict[str, Any]:
        return self._documents["asyncapi"]()
