"""Orders that an observer does: who wanted a line is known until that line is read."""

import asyncio

from anyio.lowlevel import checkpoint

from lifebus.observer.steering import Steering
from lifebus.observer.stream import AppServerStream
from lifebus.observer.way_back import ProxyWay
from lifebus.proxy.steering_socket import SENT
from lifebus_transports.messages.steering import SteeringOrder, SteeringState
from support.patience import PATIENCE_S


class Way(ProxyWay):
    """A way on which every line is sent at once, and noted."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.passed = 0

    async def send(self, line: bytes, *, position: int, seconds: float, request_id: str = "") -> tuple[int, int]:
        await checkpoint()
        self.ids.append(request_id)
        self.passed += len(line)
        return SENT, self.passed


def order(number: int, by: str) -> SteeringOrder:
    return SteeringOrder(
        number=number, kind="steer", timeout_ms=int(PATIENCE_S * 1_000), by=by, thread="t1", turn="u1", text="go on"
    )


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
