"""Steers app-servers through their observers: orders out, what became of them in (docs/steering.md).

An observer that waits for orders is one that a proxy stands behind; one that has not waited for a while is gone.
"""

import asyncio
import itertools
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import anyio
import msgspec
from msgspec import Struct

from lifebus_contract import BrokerBusy
from lifebus_contract.actions.payloads import ApprovalDecision, DecisionScope
from lifebus_supervisor.actions.ports import ControlOutcome, ControlState, PendingApproval
from lifebus_transports.messages.steering import MAX_WAIT_MS, AwaitOrder, OrderReport, SteeringOrder, SteeringState

_LEASE_S: Final = MAX_WAIT_MS / 1000 + 5
LOOK_S: Final = 2.0
"""How long an observer may take to say what it knows."""

_DECIDE_S: Final = 10.0
TURN_S: Final = 20.0
"""How long a request to an app-server may take."""

_GRACE_S: Final = 1.0
"""How much longer than its order an observer is waited for."""

RETURN_S: Final = 10.0
"""How long an observer is waited for that this broker has not seen yet: a new broker is found within seconds."""

_MAX_ORDERS: Final = 64
_MAX_KNOWN: Final = 4_096


class _Observer(Struct):
    """An observer: when it last waited, the orders for it, and who waits for its reports."""

    seen: float
    orders: deque[SteeringOrder]
    reports: dict[int, "asyncio.Future[OrderReport | None]"]
    waiting: int = 0
    changed: Any = None


class AppServerSteering:
    """The observers that take orders; fulfils `AppServerControl`.  `now` is the monotonic clock, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._observers: dict[str, _Observer] = {}
        self._numbers = itertools.count(1)
        self._asked_by: OrderedDict[str, str] = OrderedDict()
        self._came = anyio.Event()
        self._settled: OrderedDict[str, None] = OrderedDict()

    async def next_order(self, body: AwaitOrder) -> SteeringOrder | None:
        """Return the next order for an observer, None where none came within its time."""
        observer = self._observers.get(body.origin)
        if observer is None:
            self._sweep()
            observer = self._observers[body.origin] = _Observer(self._now(), deque(), {})
            self._came.set()
            self._came = anyio.Event()
        observer.seen = self._now()
        observer.waiting += 1
        try:
            with anyio.move_on_after(body.wait_ms / 1000):
                while not observer.orders:
                    observer.changed = observer.changed or anyio.Event()
                    await observer.changed.wait()
            return observer.orders.popleft() if observer.orders else None
        finally:
            observer.waiting -= 1
            observer.seen = self._now()

    def gone(self, origin: str) -> None:
        """Take it that an observer's app-server has ended: nobody waits for it any more."""
        observer = self._observers.pop(origin, None)
        for future in () if observer is None else observer.reports.values():
            if not future.done():
                future.set_result(None)

    def report(self, body: OrderReport) -> None:
        """Take what became of an order; one that nobody waits for any more is dropped."""
        observer = self._observers.get(body.origin)
        future = observer.reports.get(body.number) if observer is not None else None
        if future is not None and not future.done():
            future.set_result(body)

    async def approval(self, approval_id: str) -> PendingApproval | None:
        """Return an approval that an app-server waits for now."""
        found: list[PendingApproval] = []

        async def look(origin: str) -> None:
            order = self.order("approval", LOOK_S, approval_id=approval_id)
            report = await self.ask(origin, order)
            if report is not None and report.state is SteeringState.PENDING:
                _remember(self._asked_by, approval_id, origin)
                found.append(
                    PendingApproval(approval_id=approval_id, thread_id=report.thread, turn_id=report.turn or None)
                )
            elif report is not None and report.state is SteeringState.LATE:
                _remember(self._settled, approval_id, None)

        async with anyio.create_task_group() as tasks:
            for origin in self.reachable():
                tasks.start_soon(look, origin)
        return found[0] if found else None

    def is_settled(self, approval_id: str) -> bool:
        """Whether an observer said that an approval was asked, and is settled."""
        return approval_id in self._settled

    async def decide(
        self, approval: PendingApproval, decision: ApprovalDecision, scope: DecisionScope, by: str = "lifebus"
    ) -> ControlOutcome:
        """Answer an approval, unless somebody else has."""
        origin = self._asked_by.get(approval.approval_id)
        if origin is None:
            return ControlOutcome(ControlState.UNREACHABLE, "no observer knows this approval")
        order = self.order(
            "decide",
            _DECIDE_S,
            by=by,
            approval_id=approval.approval_id,
            decision=decision.value,
            for_session=scope is DecisionScope.SESSION,
        )
        return outcome_of(await self.ask(origin, order))

    async def steer(  # noqa: PLR0917  whom, what, under which name
        self,
        thread_id: str,
        turn_id: str,
        text: str,
        action_id: str | None,
        by: str = "lifebus",
        before: Callable[[str], Awaitable[None]] | None = None,
    ) -> ControlOutcome:
        """Tell a turn that runs something more; `before` is awaited with each observer that is about to be asked.

        One observer is asked after the other, until one has the thread and its server takes it.
        """
        found = ControlOutcome(ControlState.UNREACHABLE, "no app-server behind a proxy has this thread")
        for origin in self.reachable():
            if before is not None:
                await before(origin)
            order = self.order(
                "steer", TURN_S, by=by, thread=thread_id, turn=turn_id, text=text, action_id=action_id or ""
            )
            outcome = outcome_of(await self.ask(origin, order))
            if outcome.state is ControlState.REFUSED:
                found = outcome  # another server may have the turn
            elif outcome.state is not ControlState.UNREACHABLE:
                return outcome
        return found

    async def steered(self, action_id: str, asked: str | None) -> ControlOutcome | None:
        """Return what became of an earlier `steer`, of which `asked` was the last observer that it went to.

        `UNREACHABLE` says that it was not sent: that very observer says so, and nobody else could have sent it.
        None where nobody can tell, because that observer is gone or has forgotten.
        """
        if asked is None or not await self.is_here(asked, RETURN_S):
            return None
        report = await self.ask(asked, self.order("steered", LOOK_S, action_id=action_id))
        # One that has not fetched the question has not said that nothing was sent.
        if report is None or report.message == NOT_FETCHED or report.state is SteeringState.FORGOTTEN:
            return None
        return outcome_of(report)

    async def is_here(self, origin: str, seconds: float) -> bool:
        """Return whether an observer takes orders, as soon as it does, and after so many seconds at the latest."""
        return bool(await self.any_here(lambda name: name == origin, seconds))

    async def any_here(self, wanted: Callable[[str], bool], seconds: float) -> list[str]:
        """Return the observers of a kind that take orders, as soon as there is one, the newest first."""
        with anyio.move_on_after(seconds):
            while not any(map(wanted, self.reachable())):
                await self._came.wait()
        return [name for name in self.reachable() if wanted(name)]

    def order(self, kind: str, seconds: float, **details: Any) -> SteeringOrder:
        """Return a new order that may take so many seconds."""
        fields = {"number": next(self._numbers), "kind": kind, "timeout_ms": int(seconds * 1000), **details}
        return msgspec.convert(fields, SteeringOrder)

    async def ask(self, origin: str, order: SteeringOrder) -> OrderReport | None:
        """Return an observer's report, None where none came.

        Raises:
            BrokerBusy: too many orders wait for this observer.
        """
        observer = self._observers.get(origin)
        if observer is None:  # it went while another one was asked
            return not_fetched(origin, order)
        if len(observer.orders) >= _MAX_ORDERS:
            raise BrokerBusy("too many orders wait for this app-server's observer", code="busy")
        future: asyncio.Future[OrderReport | None] = asyncio.get_running_loop().create_future()
        observer.reports[order.number] = future
        observer.orders.append(order)
        if observer.changed is not None:
            observer.changed.set()
            observer.changed = None
        try:
            with anyio.move_on_after(order.timeout_ms / 1000 + _GRACE_S):
                if (report := await future) is not None:
                    return report
            return not_fetched(origin, order) if order in observer.orders else None
        finally:
            del observer.reports[order.number]
            # Not fetched in time, or given up: it must not be done later.
            if order in observer.orders:
                observer.orders.remove(order)

    def reachable(self) -> list[str]:
        """Return the observers that take orders, the newest first."""
        self._sweep()
        return list(reversed(self._observers))

    def _sweep(self) -> None:
        overdue = self._now() - _LEASE_S
        for origin in [
            origin
            for origin, one in self._observers.items()
            if one.seen < overdue and not one.waiting and not one.reports
        ]:
            del self._observers[origin]


_STATES: Final = {
    SteeringState.DONE: ControlState.DONE,
    SteeringState.LATE: ControlState.LATE,
    SteeringState.REFUSED: ControlState.REFUSED,
    SteeringState.UNREACHABLE: ControlState.UNREACHABLE,
    SteeringState.ABSENT: ControlState.UNREACHABLE,
}


NOT_FETCHED: Final = "the observer did not fetch the order"
"""The message of a report that stands for an order which nobody took."""

_Value = TypeVar("_Value")


def _remember(known: OrderedDict[str, _Value], approval_id: str, value: _Value) -> None:
    known[approval_id] = value
    if len(known) > _MAX_KNOWN:
        known.popitem(last=False)


def not_fetched(origin: str, order: SteeringOrder) -> OrderReport:
    """Return the report of an order that its observer has not fetched."""
    return OrderReport(
        client_id="lifebus",
        origin=origin,
        number=order.number,
        state=SteeringState.UNREACHABLE,
        message=NOT_FETCHED,
    )


def outcome_of(report: OrderReport | None) -> ControlOutcome:
    """Return what became of an order, by its report; None is that of one which never reported."""
    if report is None:
        return ControlOutcome(ControlState.UNKNOWN, "the observer did not say what became of it")
    return ControlOutcome(_STATES.get(report.state, ControlState.UNKNOWN), report.message)
