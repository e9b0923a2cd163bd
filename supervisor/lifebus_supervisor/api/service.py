"""What each verb of the request door does: messages in, the bus asked, messages out."""

import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import structlog
from anyio.abc import TaskGroup

from lifebus_broker.ports import Page, Refusal
from lifebus_broker.routing.bus import Bus
from lifebus_broker.routing.dispatch import EmissionOutcome
from lifebus_broker.routing.negotiation import negotiate
from lifebus_contract import (
    CONTRACT_VERSION,
    BrokerBusy,
    InternalError,
    InvalidRequest,
    LifebusError,
    TransportError,
)
from lifebus_contract.fields import Document
from lifebus_supervisor.api.queries import query_of
from lifebus_supervisor.api.workers import Workers
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.version import VERSION
from lifebus_transports.messages.common import Nothing, RefusalInfo
from lifebus_transports.messages.emissions import DeliveredPayload, Emit, EmitAnswer, EmitResult, Negotiate
from lifebus_transports.messages.ledger import Prune, PruneAnswer, Verify, VerifyAnswer
from lifebus_transports.messages.reads import Backfill, BackfillPage, Marker, RowInfo, SessionsQuery
from lifebus_transports.messages.state import RetentionStatus, StateHint
from lifebus_transports.messages.status import HarnessStatus
from lifebus_transports.messages.ticks import Tick, TickAnswer
from lifebus_transports.messages.workers import Response, Serve
from lifebus_transports.zmq.receipts import ReceiptPublisher
from lifebus_transports.zmq.requests import Caller, RequestServer
from lifebus_transports.zmq.workers import Dispatches

_MOST: Final = {"ticks": 256, "observations": 64, "cursors": 1024, "prunes": 1}
"""How many of a kind may be under way at once; reads are bounded by the settings.

One look answers all ticks that wait for it.  Observations are up to 256 KiB each.  A consumer
waits in one fetch, and its acknowledgements for the disk.
"""

_log = structlog.get_logger("lifebus.service")


class Service:
    """Serves the request door.  `attach` gives it the doors once they are bound."""

    def __init__(self, bus: Bus, settings: Settings, tasks: TaskGroup) -> None:
        self.bus = bus
        self.draining = False
        self.count_more: Callable[[], dict[str, int]] = dict
        self.tell_retention: Callable[[], RetentionStatus | None] = lambda: None
        self._settings = settings
        self._tasks = tasks
        self._under_way: Counter[str] = Counter()
        self._started = time.monotonic()
        self._verbs: dict[str, Callable[[Caller, Any], None]] = {
            "emit": self._emit,
            "negotiate": self._negotiate,
            "serve": self._serve,
            "leave": self._leave,
            "response": self._respond,
            "marker": self._mark,
            "ping": lambda caller, _: self._answer(caller, Nothing()),
            "clients": self._list_clients,
            "manifests": self._list_manifests,
            "status": self._tell_status,
            "backfill": partial(self.later, "reads", self._backfill),
            "sessions": partial(self.later, "reads", self._sessions),
            "tick": partial(self.later, "ticks", self._tick),
            "verify": partial(self.later, "reads", self._verify),
            "prune": partial(self.later, "prunes", self._prune),
        }

    def attach(self, requests: RequestServer, receipts: ReceiptPublisher) -> None:
        """Take the doors that answers and receipts leave by."""
        self.requests = requests
        self.receipts = receipts
        self._dispatches = Dispatches(requests)
        self.workers = Workers(self.bus.clients, self._dispatches, time.monotonic)

    def attach_supervision(
        self,
        drive: Callable[[Tick], Awaitable[TickAnswer]],
        harnesses: Callable[[], tuple[HarnessStatus, ...]],
    ) -> None:
        """Take who makes the ticks that clients ask for, and who knows how the harnesses are."""
        self._drive, self._harnesses = drive, harnesses

    def extend(self, verbs: Mapping[str, Callable[[Caller, Any], None]]) -> None:
        """Take verbs that another part of the daemon serves; each answers its caller exactly once."""
        self._verbs.update(verbs)

    def handle(self, caller: Caller, verb: str, body: Document) -> None:
        """Serve one request; fulfils `zmq_requests.RequestHandler`."""
        self._verbs[verb](caller, body)

    def _answer(self, caller: Caller, body: object) -> None:
        self.requests.answer(caller, body)

    def _emit(self, caller: Caller, body: Emit) -> None:
        if self.draining:
            raise TransportError("the broker is stopping; try again", code="busy")
        self.bus.submit(body.client_id, body.emissions, partial(self._emitted, caller))

    def _emitted(self, caller: Caller, outcomes: list[EmissionOutcome]) -> None:
        self._answer(caller, EmitAnswer(results=tuple([_result(outcome) for outcome in outcomes])))

    def _negotiate(self, caller: Caller, body: Negotiate) -> None:
        registered = self.bus.registry.require(body.adapter_id)
        overrides = self.bus.capabilities.overrides(body.adapter_id, body.session)
        self._answer(caller, negotiate(registered, body.requirements, overrides))

    def _serve(self, caller: Caller, body: Serve) -> None:
        self.workers.serve(caller, body)
        self._answer(caller, Nothing())

    def _leave(self, caller: Caller, _: Nothing) -> None:
        self.workers.leave(caller)
        self._answer(caller, Nothing())

    def _respond(self, caller: Caller, body: Response) -> None:
        self._dispatches.resolve(caller, body)

    def _mark(self, caller: Caller, body: Marker) -> None:
        self.receipts.publish_marker(self.bus.ledger.epoch, body.nonce)
        self._answer(caller, Nothing())

    def _list_clients(self, caller: Caller, _: Nothing) -> None:
        self._answer(
            caller,
            [
                {
                    "client_id": client.client_id,
                    "kind": client.kind,
                    "events": sorted(client.events),
                    "adapters": sorted(client.adapters),
                    "deadline_ms": int(client.deadline * 1000),
                    "dispatched": client.dispatched,
                    "failed": client.failed,
                    "background": client.background,
                }
                for client in self.bus.clients.all()
            ],
        )

    def _list_manifests(self, caller: Caller, _: Nothing) -> None:
        self._answer(caller, [registered.manifest for registered in self.bus.registry.all()])

    def _tell_status(self, caller: Caller, _: Nothing) -> None:
        counters = {
            "requests": self.requests.counters.requests,
            "requests_malformed": self.requests.counters.malformed,
            "requests_refused": self.requests.counters.refused,
            "answers_lost": self.requests.counters.unanswerable,
            "receipts_published": self.receipts.counters.receipts,
            "subscriptions_refused": self.receipts.counters.malformed,
            "dispatches": self.bus.dispatches,
            "ticks_transient": self.bus.fanout.transient,
        }
        self._answer(
            caller,
            {
                "version": VERSION,
                "contract_version": CONTRACT_VERSION,
                "pid": os.getpid(),
                "uptime_s": int(time.monotonic() - self._started),
                "runtime_dir": str(self._settings.runtime_dir),
                "ledger": self.bus.ledger.status(),
                "clients": len(self.bus.clients.all()),
                "counters": counters | self.count_more(),
                "harnesses": self._harnesses(),
                "retention": self.tell_retention(),
            },
        )

    def later(self, kind: str, work: Callable[[Any], Awaitable[object]], caller: Caller, body: Document) -> None:
        """Run what takes its time in a task of its own and answer with what it returns.

        Raises:
            BrokerBusy: too many of this kind are under way.
        """
        most = _MOST.get(kind, self._settings.limits.backfills)
        if self._under_way[kind] >= most:
            raise BrokerBusy(f"too many {kind} are under way; try again", code="busy")
        self._under_way[kind] += 1
        self._tasks.start_soon(self._work, kind, work, caller, body)

    async def _work(self, kind: str, work: Callable[[Any], Awaitable[object]], caller: Caller, body: Document) -> None:
        try:
            self._answer(caller, await work(body))
        except LifebusError as fault:
            self.requests.refuse(caller, fault)
        except Exception:  # noqa: BLE001  a defect of ours costs this question, not everybody's bus
            _log.exception("read_failed")
            self.requests.refuse(caller, InternalError("the broker failed on this question; see its log"))
        finally:
            self._under_way[kind] -= 1

    async def _backfill(self, body: Backfill) -> BackfillPage:
        ledger = self.bus.ledger
        if body.epoch is not None and body.epoch != ledger.epoch:
            status = ledger.status()
            page = _elsewhere(ledger.epoch, status.head, status.floor)
        else:
            page = await ledger.read(query_of(body, body.after))
        return _page(page, state=ledger.durable)

    async def _sessions(self, body: SessionsQuery) -> object:
        return await self.bus.ledger.sessions(body.session)

    async def _tick(self, body: Tick) -> TickAnswer:
        if self.draining:
            raise TransportError("the broker is stopping; try again", code="busy")
        return await self._drive(body)

    async def _prune(self, _: Prune) -> PruneAnswer:
        raise InvalidRequest("the ledger is kept in memory: nothing is pruned", code="not_durable")

    async def _verify(self, body: Verify) -> VerifyAnswer:
        return VerifyAnswer(checked=self.bus.ledger.head, faults=tuple(await self.bus.ledger.verify(tail=body.tail)))


def _result(outcome: EmissionOutcome) -> EmitResult:
    """Return the wire form of an outcome."""
    if outcome.refusal is not None:
        return EmitResult(refusal=_refusal(outcome.refusal))
    return EmitResult(
        receipts=tuple([row.receipt for row in outcome.rows]),
        positions=tuple([row.position for row in outcome.rows]),
        replayed=outcome.replayed,
        deliveries=tuple([DeliveredPayload(payload=payload, slot=slot) for payload, slot in outcome.deliveries]),
    )


def _refusal(refusal: Refusal) -> RefusalInfo:
    return RefusalInfo(
        failure_class=refusal.failure_class,
        retry_class=refusal.retry_class,
        detail=refusal.detail[:1024],
        code=refusal.code,
    )


def _page(page: Page, *, state: bool) -> BackfillPage:
    """Return the wire form of a page; where a `state` is kept, its place is named to who has lost something."""
    return BackfillPage(
        epoch=page.epoch,
        rows=tuple([RowInfo(row.position, row.sequence, row.receipt) for row in page.rows]),
        next=page.next,
        head=page.head,
        floor=page.floor,
        complete=page.complete,
        snapshot_required=page.snapshot_required,
        snapshot=StateHint(position=page.floor) if state and page.snapshot_required else None,
    )


def _elsewhere(epoch: str, head: int, floor: int) -> Page:
    """Return the answer to a cursor of another history."""
    return Page(epoch=epoch, rows=(), next=floor, head=head, floor=floor, complete=False, snapshot_required=True)
