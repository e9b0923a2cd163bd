"""Orders that an observer does: who wanted a line is known until that line is read."""

import asyncio

from anyio.lowlevel import checkpoint

from lifebus.observer.steering import Steering
from lifebus.observer.stream import AppServerStream
from lifebus.observer.way_back import ProxyWay
from lifebus.proxy.steering_socket import LATE, SENT
from lifebus_transports.messages.signals import ObservedTurn
from lifebus_transports.messages.steering import SteeringOrder, SteeringState
from support.patience import PATIENCE_S


class Way(ProxyWay):
    """A way on which every line is sent at once, and noted."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.passed = 0
        self.outcome = SENT

    async def send(self, line: bytes, *, position: int, seconds: float, request_id: str = "") -> tuple[int, int]:
        await checkpoint()
        self.ids.append(request_id)
        self.passed += len(line)
        return self.outcome, self.passed


def order(number: int, by: str, action_id: str = "") -> SteeringOrder:
    return SteeringOrder(
        number=number,
        kind="steer",
        timeout_ms=int(PATIENCE_S * 1_000),
        by=by,
        thread="t1",
        turn="u1",
        text="go on",
        action_id=action_id,
    )


def question(action_id: str, timeout_ms: int = int(PATIENCE_S * 1_000)) -> SteeringOrder:
    return SteeringOrder(number=99, kind="steered", action_id=action_id, timeout_ms=timeout_ms)


def said(stream: AppServerStream, message: str) -> None:
    stream.feed("out", message.encode() + b"\n", 0)


async def test_a_line_is_somebodys_until_it_is_read_however_far_the_reader_is_behind() -> None:
    stream, way = AppServerStream(), Way()
    said(stream, '{"method":"thread/started","params":{"thread":{"id":"t1"}}}')
    steering = Steering(stream, way)
    async with asyncio.timeout(PATIENCE_S):
        async with asyncio.TaskGroup() as tasks:
            done = [tasks.create_task(steering.do(order(number, by))) for number, by in enumerate(("ann", "ben"))]
            for count, by in enumerate(("ann", "ben"), 1):
                while len(way.ids) < count:
                    await checkpoint()
                for _ in range(8):
                    await checkpoint()  # whoever may go on does
                assert (len(way.ids), steering.sender) == (count, by)
                steering.note_read("in", way.passed, lost=False)
            for name in way.ids:
                said(stream, f'{{"id":"{name}","result":{{}}}}')
    assert [one.result()[0] for one in done] == [SteeringState.DONE, SteeringState.DONE]


def steered() -> tuple[AppServerStream, Way, Steering]:
    stream, way = AppServerStream(), Way()
    said(stream, '{"method":"thread/started","params":{"thread":{"id":"t1"}}}')
    return stream, way, Steering(stream, way)


async def test_what_is_under_way_is_not_absent_and_is_done_once() -> None:
    stream, way, steering = steered()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        first = tasks.create_task(steering.do(order(1, "ann", "a")))
        await checkpoint()
        assert (await steering.do(question("a", timeout_ms=1)))[0] is SteeringState.UNKNOWN
        again = tasks.create_task(steering.do(order(2, "ann", "a")))
        asked = tasks.create_task(steering.do(question("a")))
        while not way.ids:
            await checkpoint()
        steering.note_read("in", way.passed, lost=False)
        said(stream, f'{{"id":"{way.ids[0]}","result":{{}}}}')
    assert {first.result()[0], again.result()[0], asked.result()[0]} == {SteeringState.DONE}
    assert len(way.ids) == 1


async def test_what_was_not_sent_is_known_and_may_be_sent_later() -> None:
    stream, way, steering = steered()
    way.outcome = LATE
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        assert (await steering.do(order(1, "ann", "a")))[0] is SteeringState.UNREACHABLE
        assert (await steering.do(question("a")))[0] is SteeringState.UNREACHABLE
        way.outcome = SENT
        second = tasks.create_task(steering.do(order(2, "ann", "a")))
        while len(way.ids) < 2:
            await checkpoint()
        steering.note_read("in", way.passed, lost=False)
        said(stream, f'{{"id":"{way.ids[1]}","result":{{}}}}')
    assert second.result()[0] is SteeringState.DONE


async def test_an_observer_that_has_forgotten_something_says_of_nothing_that_it_was_never_sent() -> None:
    _, way, steering = steered()
    way.outcome = LATE
    assert (await steering.do(question("a")))[0] is SteeringState.ABSENT
    for number in range(1_025):
        await steering.do(order(number + 1, "ann", f"a{number}"))
    assert (await steering.do(question("a0")))[0] is SteeringState.FORGOTTEN
    assert (await steering.do(question("a")))[0] is SteeringState.FORGOTTEN
    assert (await steering.do(question("a1024")))[0] is SteeringState.UNREACHABLE


async def test_a_workers_turn_that_runs_while_the_servers_words_are_lost_has_an_end_that_nobody_knows() -> None:
    stream, told = AppServerStream(), list[ObservedTurn]()

    def report(turn: ObservedTurn) -> None:
        told.append(turn)

    steering = Steering(stream, Way(), report)
    steering.own.add("w")
    steering.own.begun("w", "u")
    steering.note_read("in", 10, lost=True)
    steering.note_read("out", 10, lost=False)
    assert told == []
    steering.note_read("out", 20, lost=True)
    assert told == [ObservedTurn(thread="w", turn="u", status="lost")]
    assert steering.own.state_of("w", "u") is SteeringState.DONE
