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
    """A client, the positions that it got in their order, and the types of the other frames."""

    def __init__(self, client: CutClient) -> None:
        self.client = client
        self.positions: list[int] = []
        self.others: list[str] = []

    def read(self) -> bool:
        """Take what is there; say whether all receipts are."""
        for frame in self.client.read():
            if frame["type"] == "receipt":
                self.positions.append(frame["payload"]["position"])
            else:
                self.others.append(frame["type"])
        assert not self.client.ended
        return len(self.positions) >= COUNT


def opened(address: Address, number: int) -> CutClient:
    """A client of one kind or the other."""
    if number % 2:
        return CutEvents(address.port, "/api/events", address.bearer)
    return CutSocket(address.port, "/api/stream?batch=true", address.bearer)


def read_all(followers: list[Followed]) -> None:
    """Read from whoever has something, until everybody has everything."""
    with selectors.DefaultSelector() as waiting:
        for one in followers:
            waiting.register(one.client, selectors.EVENT_READ, one)
        while waiting.get_map():
            ready = waiting.select(PATIENCE_S)
            assert ready, "nothing comes any more"
            for key, _ in ready:
                if key.data.read():
                    waiting.unregister(key.fileobj)


async def test_a_crowd_follows_many_receipts_without_a_gap_whoever_does_not_read(
    record_property: Callable[[str, object], None],
) -> None:
    with short_directory() as directory, ExitStack() as opens:
        async with broker_process(directory, **SETTINGS) as broker:
            address = Address.of(broker.runtime_dir)
            crowd = [Followed(opens.enter_context(closing(opened(address, n)))) for n in range(FOLLOWERS)]
            idle = [Followed(opens.enter_context(closing(opened(address, n)))) for n in range(2)]
            for one in (*crowd, *idle):
                while not one.others:
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
        assert set(one.others) <= {"ready", "behind", "caught_up"}
    record_property("told to be late", sum(one.others.count("behind") for one in crowd))


async def test_idle_connections_cost_little(record_property: Callable[[str, object], None]) -> None:
    with short_directory() as directory, ExitStack() as opens:
        async with broker_process(directory, **SETTINGS, LIFEBUS_GATEWAY_MAX_CONNECTIONS="2048") as broker:
            address = Address.of(broker.runtime_dir)

            def connect(count: int) -> list[Followed]:
                return [Followed(opens.enter_context(closing(opened(address, 0)))) for _ in range(count)]

            def wait(clients: list[Followed]) -> None:
                for one in clients:
                    while not one.others:
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
