"""Threads and turns of workers at app-servers, by orders to their observers (`AppServerThreads`)."""

from collections.abc import Callable, Sequence
from typing import Final

import anyio

from lifebus_contract import BrokerBusy
from lifebus_contract.jobs import AgentInstruction
from lifebus_supervisor.actions.ports import ControlOutcome, ControlState
from lifebus_supervisor.app_server.steering import (
    LOOK_S,
    NOT_FETCHED,
    TURN_S,
    AppServerSteering,
    not_fetched,
    outcome_of,
)
from lifebus_supervisor.worker_turns.ports import BegunTurn, OwnThread
from lifebus_transports.messages.steering import OrderReport, SteeringOrder, SteeringState

FIND_S: Final = 20.0
"""How long an app-server is waited for that has a session."""

_AGAIN_S: Final = 1.0
_ASK_S: Final = 10.0
_INTERRUPT_S: Final = 10.0

_BY: Final = "lifebus.worker"


class WorkerOrders:
    """Has observers open threads, and begin and end turns there."""

    def __init__(self, steering: AppServerSteering) -> None:
        self._steering = steering

    async def open(self, source: str, sandbox: str) -> OwnThread | ControlOutcome:
        """Open a thread at the app-server that has the source session's, as soon as one has."""
        found = ControlOutcome(ControlState.UNREACHABLE, f"no app-server behind a proxy has the session {source}")
        until = anyio.current_time() + FIND_S
        while True:
            # Never given up in the middle: a thread that is opened is somebody's.
            outcome = await self._open_now(source, sandbox)
            if isinstance(outcome, OwnThread) or outcome.state is not ControlState.UNREACHABLE:
                return outcome
            if anyio.current_time() > until:
                return found
            # A broker that has just started knows no observer yet, and an observer no thread that it has not seen.
            await self._steering.any_here(_unlike(self._steering.reachable()), _AGAIN_S)

    async def _open_now(self, source: str, sandbox: str) -> OwnThread | ControlOutcome:
        found = ControlOutcome(ControlState.UNREACHABLE)
        for origin in self._steering.reachable():
            order = self._steering.order("open", TURN_S, thread=source, sandbox=sandbox, by=_BY)
            report = await self._ask(origin, order)
            if report is not None and report.state is SteeringState.DONE:
                return OwnThread(origin, report.thread)
            outcome = outcome_of(report)
            found = found if outcome.state is ControlState.UNREACHABLE else outcome
        return found

    async def begin(self, at: OwnThread, text: str, action_id: str, payload: AgentInstruction) -> BegunTurn:
        """Begin a turn; under the same `action_id` an observer begins one at most."""
        order = self._steering.order(
            "start",
            TURN_S,
            thread=at.thread,
            text=text,
            action_id=action_id,
            model=payload.model or "",
            effort=payload.effort or "",
            by=_BY,
        )
        return _begun(await self._ask(at.origin, order))

    async def begun(self, at: OwnThread, action_id: str) -> BegunTurn | None:
        """Return what became of an earlier `begin`, None where nobody can tell."""
        report = await self._ask(at.origin, self._steering.order("steered", _ASK_S, action_id=action_id))
        if report is None or report.message == NOT_FETCHED or report.state is SteeringState.FORGOTTEN:
            return None
        return _begun(report)

    async def is_running(self, at: OwnThread, turn: str) -> bool | None:
        """Return whether a turn runs, as far as its observer knows; None where that did not answer."""
        order = self._steering.order("turn", LOOK_S, thread=at.thread, turn=turn)
        report = await self._ask(at.origin, order)
        if report is None or report.message == NOT_FETCHED:
            return None
        return report.state is SteeringState.PENDING

    async def interrupt(self, at: OwnThread, turn: str | None) -> ControlOutcome:
        """End the turn that runs in a thread."""
        order = self._steering.order("interrupt", _INTERRUPT_S, thread=at.thread, turn=turn or "", by=_BY)
        return outcome_of(await self._ask(at.origin, order))

    async def present(self, origin: str, seconds: float) -> str | None:
        """Return the observer of an app-server that takes orders now: that one, or the one that took its place."""
        # The next one is started once the one before has ended, of which nobody may have noticed yet.
        found = await self._steering.any_here(lambda name: _number(origin, name) is not None, seconds)
        return max(found, key=lambda name: _number(origin, name) or 0, default=None)

    async def _ask(self, origin: str, order: SteeringOrder) -> OrderReport | None:
        """Return an observer's report; an order for which there is no room is one that nobody fetched."""
        try:
            return await self._steering.ask(origin, order)
        except BrokerBusy:
            return not_fetched(origin, order)


def _unlike(known: Sequence[str]) -> Callable[[str], bool]:
    return lambda name: name not in known


def _begun(report: OrderReport | None) -> BegunTurn:
    return BegunTurn(outcome_of(report), "" if report is None else report.turn)


def _number(origin: str, name: str) -> int | None:
    """Return the number of an observer that is this one, or that the same proxy has started after it; else None."""
    base, _, number = origin.rpartition(".")
    known, first = (base, int(number)) if base and number.isdecimal() else (origin, 1)
    if name == origin:
        return first
    other, _, count = name.rpartition(".")
    return int(count) if other == known and count.isdecimal() and int(count) > first else None
