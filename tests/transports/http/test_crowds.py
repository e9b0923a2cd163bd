"""Many clients at once: each gets every receipt, one that does not read holds nobody up, and idle ones cost little."""

import asyncio
import selectors
import time
from collections.abc import Callable
from contextlib import ExitStack, closing

import lifebus
from support.broker_process import broker_process
from support.effort import effort
from support.patience import PATIENCE_MS, PATIENCE_S
from support.running import short_directory
from support.transports.cut_clients import CutClient, CutEvents, CutSocket
from support.transports.gateway import Address, emit_at_a_rate

FOLLOWERS = effort(10, 100)
RATE = 1_000
COUNT = RATE * effort(1, 20)
IDLE = effort(300, 1_000)
BYTES_OF_AN_IDLE_ONE = 60_000
SETTINGS = {
    "LIFEBUS_GATEWAY_ENABLED": "true",
    "LIFEBUS_GATEWAY_SEND_TIMEOUT_MS": str(PATIENCE_MS),
    "LIFEBUS_TICKS_ENABLED": "false",
    "LIFEBUS_TELEMETRY_ENABLED": "false",
}


class Followed:
    """A client, the positions that it got in their order, and the types of the other frames; it comes back if it must.

    The gateway ends the stream of a client that does not read, which is told when it comes back that nothing is lost.
    """

    def __init__(self, address: Address, number: int) -> None:
        self.positions: list[int] = []
        self.others: list[str] = []
        self.resumes: list[str] = []
        self._address, self._number = address, number
        self._last: str | None = None
        self.client = self._opened()

    def read(self) -> None:
        """Take what is there."""
        for frame in self.client.read():
            self._last = frame["id"]
            if frame["type"] == "receipt":
                self.positions.append(frame["payload"]["position"])
            elif frame["type"] == "ready":
                self.resumes.append(frame["payload"]["resume"])
            else:
                self.others.append(frame["type"])
        if self.client.ended:
            self.client.close()
            self.client = self._opened()

    def close(self) -> None:
        self.client.close()

    def _opened(self) -> CutClient:
        """A connection of one kind or the other."""
        headers = self._address.bearer | ({} if self._last is None else {"Last-Event-ID": self._last})
        if self._number % 2:
            return CutEvents(self._address.port, "/api/events", headers)
        return CutSocket(self._address.port, "/api/stream?batch=true", headers)


def read_all(followers: list[Followed]) -> None:
    """Read from whoever has something, until everybody has everything."""
    with selectors.DefaultSelector() as waiting:
        for one in followers:
            waiting.register(one.client, selectors.EVENT_READ, one)
        while waiting.get_map():
            ready = waiting.select(PATIENCE_S)
            assert ready, "nothing comes any more"
            for key, _ in ready:
                one = key.data
                waiting.unregister(key.fileobj)
                one.read()
                if len(one.positions) < COUNT:
                    waiting.register(one.client, selectors.EVENT_READ, one)


async def test_a_crowd_follows_many_receipts_without_a_gap_whoever_does_not_read(
    record_property: Callable[[str, object], None],
) -> None:
    with short_directory() as directory, ExitStack() as opens:
        async with broker_process(directory, **SETTINGS) as broker:
            address = Address.of(broker.runtime_dir)
            crowd = [opens.enter_context(closing(Followed(address, n))) for n in range(FOLLOWERS)]
            idle = [opens.enter_context(closing(Followed(address, n))) for n in range(2)]
            for one in (*crowd, *idle):
                while not one.resumes:
                    one.read()
            before = broker.memory
            reading = asyncio.create_task(asyncio.to_thread(read_all, crowd))
            await emit_at_a_rate(broker.runtime_dir, COUNT, RATE)
            last = time.monotonic()
            await reading
            record_property("seconds until all had it", round(time.monotonic() - last, 2))
            record_property("MB", round((broker.memory - before) / 1e6))
            await asyncio.to_thread(read_all, idle)
    for one in (*crowd, *idle):
        assert one.positions == list(range(1, COUNT + 1))
        # Being told to be late is no gap.
        assert set(one.others) <= {"behind", "caught_up"}
        assert one.resumes == ["none", *["complete"] * (len(one.resumes) - 1)]
    record_property("told to be late", sum(one.others.count("behind") for one in crowd))


async def test_idle_connections_cost_little(record_property: Callable[[str, object], None]) -> None:
    with short_directory() as directory, ExitStack() as opens:
        async with broker_process(directory, **SETTINGS, LIFEBUS_GATEWAY_MAX_CONNECTIONS="2048") as broker:
            address = Address.of(broker.runtime_dir)

            def connect(count: int) -> list[Followed]:
                return [opens.enter_context(closing(Followed(address, 0))) for _ in range(count)]

            def wait(clients: list[Followed]) -> None:
                for one in clients:
                    while not one.resumes:
                        one.read()

            wait(connect(20))  # what the first ones load
            before = broker.memory
            crowd = connect(IDLE)
            wait(crowd)
            each = (broker.memory - before) / IDLE
            assert each <= BYTES_OF_AN_IDLE_ONE
            record_property("bytes of an idle connection", round(each))
            # They are served as any other.
            async with lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
                await bus.emit(lifebus.make_request("session.started", "codex", session="s"))
            for one in crowd:
                while not one.positions:
                    one.read()
                assert one.positions == [1]
