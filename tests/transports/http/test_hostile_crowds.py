"""Clients that take and never give, many at once: the others get everything, and the broker has back what they held."""

import asyncio
import json
import socket
from contextlib import ExitStack, closing

import psutil

import lifebus
from support.broker_process import BrokerProcess, broker_process, until
from support.effort import effort
from support.patience import PATIENCE_S
from support.running import short_directory
from support.transports.cut_clients import CutEvents, CutSocket
from support.transports.gateway import Address, emit_at_a_rate

CROWD = effort(8, 60)
COMMANDS = effort(2_000, 10_000)
RECEIPTS = effort(1_000, 20_000)
MEGABYTES = 40
SETTINGS = {
    "LIFEBUS_GATEWAY_ENABLED": "true",
    "LIFEBUS_TICKS_ENABLED": "false",
    "LIFEBUS_TELEMETRY_ENABLED": "false",
}
SUBSCRIBE = json.dumps({"type": "subscribe", "topics": ["queue/p"], "from": "oldest"}).encode()


class Deaf(CutSocket):
    """A WebSocket whose client sends and never reads."""

    def send_all(self, commands: list[bytes]) -> None:
        """Send many commands at once; whoever ends the connection meanwhile may."""
        for command in commands:
            self._protocol.send_text(command)
        data = b"".join(self._protocol.data_to_send())
        try:
            self._socket.sendall(data)
        except (ConnectionError, TimeoutError):
            self.ended = True


def follow(address: Address, count: int) -> list[int]:
    """Follow as one should, up to a position; return the positions."""
    found: list[int] = []
    with closing(CutSocket(address.port, "/api/stream?topic=receipts&from=oldest", address.bearer)) as client:
        while len(found) < count:
            found += [one["payload"]["position"] for one in client.read() if one["type"] == "receipt"]
            assert not client.ended
    return found


def answers(address: Address) -> tuple[int, list[str]]:
    """Send many commands at once and read; return how many were answered in their order, and the other types."""
    with closing(Deaf(address.port, "/api/stream?topic=queue/p", address.bearer)) as client:
        while not client.read():
            pass
        client.send_all([b'{"type":"ping"}'] * COMMANDS + [b"?"])
        types: list[str] = []
        while "error" not in types:
            types += [one["type"] for one in client.read()]
            assert not client.ended
        return types.count("pong"), sorted(set(types))


def hostile(address: Address, opened: ExitStack) -> None:
    """Open everything that holds something."""
    for number in range(CROWD):
        for client in (
            Deaf(address.port, "/api/stream?from=oldest&batch=true", address.bearer),
            CutEvents(address.port, "/api/events?from=oldest", address.bearer),
            Deaf(address.port, "/api/stream?topic=queue/p", address.bearer),
        ):
            opened.enter_context(closing(client))
            if isinstance(client, Deaf) and number % 4 == 0:
                # From its first frame on it is deaf.
                while not client.read():
                    pass
                client.send_all([SUBSCRIBE] * 100)
        for text in (b"", b"GET /api/hea", b"GET /api/health HTTP/1.1\r\nHost: x\r\n"):
            plain = opened.enter_context(socket.create_connection(("127.0.0.1", address.port), PATIENCE_S))
            plain.sendall(text)
            if number % 2:
                plain.shutdown(socket.SHUT_WR)


def held(broker: BrokerProcess) -> int:
    """How many connections the broker has open, as the kernel lists them."""
    found = psutil.Process(broker.pid).net_connections("tcp")
    return sum(one.status != psutil.CONN_LISTEN for one in found)


async def test_whoever_holds_much_holds_up_nobody_and_leaves_nothing() -> None:
    with short_directory() as directory, ExitStack() as opened:
        async with broker_process(directory, **SETTINGS) as broker:
            address = Address.of(broker.runtime_dir)
            # What the first ones load stays.
            assert (await asyncio.to_thread(answers, address))[0] == COMMANDS
            async with lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
                await bus.emit(lifebus.make_request("session.started", "codex", session="s"))
            assert await asyncio.to_thread(follow, address, 1) == [1]
            memory = broker.memory
            await asyncio.to_thread(hostile, address, opened)
            following = asyncio.create_task(asyncio.to_thread(follow, address, RECEIPTS + 1))
            answering = asyncio.create_task(asyncio.to_thread(answers, address))
            await emit_at_a_rate(broker.runtime_dir, RECEIPTS, 1_000)
            assert await following == list(range(1, RECEIPTS + 2))
            assert await answering == (COMMANDS, ["error", "pong"])
            assert broker.memory - memory < MEGABYTES * 1_000_000
            opened.close()
            await until(lambda: not held(broker))
            assert broker.memory - memory < MEGABYTES * 1_000_000
            assert (await asyncio.to_thread(follow, address, 3))[:3] == [1, 2, 3]
