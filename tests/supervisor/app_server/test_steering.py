"""Orders for app-servers: to whoever may have them, in time or never, and reported by whom they were given to."""

import asyncio

import anyio
import pytest
from anyio.lowlevel import checkpoint

from lifebus_contract import BrokerBusy
from lifebus_contract.actions.payloads import ApprovalDecision, DecisionScope
from lifebus_supervisor.actions.ports import ControlOutcome, ControlState, PendingApproval
from lifebus_supervisor.app_server import steering as module
from lifebus_supervisor.app_server.steering import AppServerSteering
from lifebus_transports.messages.steering import AwaitOrder, OrderReport, SteeringOrder, SteeringState
from support.patience import PATIENCE_S


class Observers:
    """Observers of app-servers that report what a test says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steering = AppServerSteering(lambda: self.now)
        self.fetched: list[tuple[str, str]] = []

    async def fetch(self, origin: str, wait_ms: int = 30_000) -> SteeringOrder | None:
        return await self.steering.next_order(
            AwaitOrder(client_id="o", adapter_id="codex", origin=origin, wait_ms=wait_ms)
        )

    async def serve(self, origin: str, state: SteeringState, message: str = "") -> None:
        """Report one order so."""
        order = await self.fetch(origin)
        assert order is not None
        self.fetched.append((origin, order.kind))
        self.report(origin, order.number, state, message)

    def report(self, origin: str, number: int, state: SteeringState, message: str = "") -> None:
        self.steering.report(
            OrderReport(client_id="o", origin=origin, number=number, state=state, message=message, thread="t")
        )


async def test_the_observer_that_has_the_turn_is_found_behind_those_that_have_not() -> None:
    at = Observers()
    for origin in ("right", "other", "refuses"):  # the newest is asked first
        await at.fetch(origin, 0)
    serving = [
        at.serve("right", SteeringState.DONE),
        at.serve("other", SteeringState.UNREACHABLE),
        at.serve("refuses", SteeringState.REFUSED, "no active turn to steer"),
    ]
    steered = asyncio.ensure_future(at.steering.steer("t", "u", "text", None))
    await asyncio.gather(*serving)
    outcome = await steered
    assert outcome.state is ControlState.DONE
    assert [origin for origin, _ in at.fetched] == ["refuses", "other", "right"]


async def test_where_all_refuse_the_servers_words_are_the_outcome() -> None:
    at = Observers()
    await at.fetch("one", 0)
    outcome, _ = await asyncio.gather(
        at.steering.steer("t", "u", "text", None), at.serve("one", SteeringState.REFUSED, "no active turn to steer")
    )
    assert outcome == ControlOutcome(ControlState.REFUSED, "no active turn to steer")


async def test_an_order_that_no_observer_fetches_in_time_is_not_done_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TURN_S", 0.001)
    monkeypatch.setattr(module, "_GRACE_S", 0.001)
    at = Observers()
    await at.fetch("one", 0)
    assert (await at.steering.steer("t", "u", "text", None)).state is ControlState.UNREACHABLE
    assert await at.fetch("one", 0) is None


async def test_an_observer_that_cannot_be_asked_has_not_said_that_nothing_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.001)
    monkeypatch.setattr(module, "_GRACE_S", 0.001)
    at = Observers()
    await at.fetch("one", 0)
    assert await at.steering.steered("a", "one") is None


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (SteeringState.DONE, ControlState.DONE),
        (SteeringState.REFUSED, ControlState.REFUSED),
        (SteeringState.UNKNOWN, ControlState.UNKNOWN),
        (SteeringState.ABSENT, ControlState.UNREACHABLE),
        (SteeringState.UNREACHABLE, ControlState.UNREACHABLE),
        (SteeringState.FORGOTTEN, None),
    ],
)
async def test_whether_a_steer_was_sent_is_said_by_the_observer_that_had_it(
    said: SteeringState, expected: ControlState | None
) -> None:
    at = Observers()
    await at.fetch("other", 0)

    async def serve() -> None:
        await checkpoint()  # the broker waits for it first: it comes back later than the question
        await at.serve("asked", said)

    found, _ = await asyncio.gather(at.steering.steered("a", "asked"), serve())
    assert (None if found is None else found.state) is expected
    assert at.fetched == [("asked", "steered")], "no other observer can say it"


async def test_nobody_knows_whether_a_steer_was_sent_whose_observer_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RETURN_S", 0.001)
    at = Observers()
    await at.fetch("asked.2", 0)
    assert await at.steering.steered("a", "asked") is None
    assert await at.steering.steered("a", None) is None


async def test_who_is_about_to_be_asked_is_known_before_the_order_goes_out() -> None:
    at, told = Observers(), list[str]()
    await at.fetch("one", 0)

    async def refuse(origin: str) -> None:
        told.append(origin)
        raise BrokerBusy("it cannot be recorded", code="disk_full")

    with pytest.raises(BrokerBusy):
        await at.steering.steer("t", "u", "text", "a", "by", refuse)
    assert told == ["one"]
    assert await at.fetch("one", 0) is None


async def test_an_observer_that_goes_while_another_one_is_asked_is_passed_over() -> None:
    at = Observers()
    for origin in ("goes", "refuses"):
        await at.fetch(origin, 0)
    outcome = asyncio.ensure_future(at.steering.steer("t", "u", "text", None))
    order = await at.fetch("refuses")
    assert order is not None
    at.now = 60.0
    await at.fetch("comes", 0)
    at.report("refuses", order.number, SteeringState.REFUSED, "no active turn to steer")
    assert await outcome == ControlOutcome(ControlState.REFUSED, "no active turn to steer")


async def test_an_order_that_was_given_up_is_not_done_later() -> None:
    at = Observers()
    await at.fetch("one", 0)
    with anyio.move_on_after(0):
        await at.steering.steer("t", "u", "text", None)
    assert await at.fetch("one", 0) is None


async def test_an_order_that_was_fetched_and_not_reported_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TURN_S", 0.001)
    monkeypatch.setattr(module, "_GRACE_S", 0.001)
    at = Observers()
    order, outcome = await asyncio.gather(at.fetch("one"), _soon(at))
    assert order is not None
    assert outcome.state is ControlState.UNKNOWN
    at.report("one", order.number, SteeringState.DONE)  # too late, and of no use to anybody


async def _soon(at: Observers) -> ControlOutcome:
    await checkpoint()  # the observer waits first
    return await at.steering.steer("t", "u", "text", None)


async def test_nobody_waits_for_an_observer_whose_server_has_ended() -> None:
    at = Observers()
    await at.fetch("o", 0)
    asked = [asyncio.ensure_future(at.steering.ask("o", at.steering.order("steer", 30.0))) for _ in range(2)]
    await checkpoint()
    assert (await at.fetch("o")) is not None  # the first one is fetched, and may be done
    at.steering.gone("o")
    at.steering.gone("o")
    async with asyncio.timeout(PATIENCE_S):
        fetched, waiting = [await one for one in asked]
    assert fetched is None
    assert waiting is not None
    assert waiting.message == module.NOT_FETCHED
    assert at.steering.reachable() == []


async def test_an_observer_that_has_not_waited_for_a_while_is_gone() -> None:
    at = Observers()
    await at.fetch("one", 0)
    at.now = 60.0
    assert await at.steering.approval("u:0") is None
    assert (await at.steering.steer("t", "u", "text", None)).state is ControlState.UNREACHABLE


async def test_an_approval_that_nobody_has_seen_pending_is_decided_by_nobody() -> None:
    at = Observers()
    found = PendingApproval(approval_id="u:0", thread_id="t", turn_id="u")
    assert (
        await at.steering.decide(found, ApprovalDecision.ACCEPT, DecisionScope.TURN)
    ).state is ControlState.UNREACHABLE
