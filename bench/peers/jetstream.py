"""NATS JetStream: file storage, a message id on every publish, acknowledgements counted on one inbox.

The duplicate check is JetStream's own (`Nats-Msg-Id`); the number of a receipt is its stream's sequence.  Publishing
with our own reply inbox costs the client less than one future a message, so this is the fast way for a Python client.
"""

import asyncio
import itertools
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, Final

import nats
from nats.js.errors import APIError

from bench.peers.process import find_program, free_port, server, workspace
from bench.workload import Item, Pace, Peer, Rate, RefusedError, Stopwatch, paced

CONFIG = """
host: "127.0.0.1"
port: {port}
jetstream {{ store_dir: "{folder}"{sync} }}
"""

_TOO_MANY: Final = 429
_PATIENCE_S: Final = 5.0
_MOST_S: Final = 180.0


@contextmanager
def running(*, always: bool) -> Iterator[Peer | None]:
    """Provide a NATS server of our own, syncing every write or by its default (every two minutes); None if absent."""
    program = find_program("nats-server")
    if program is None:
        yield None
        return
    port = free_port()
    with workspace() as folder:
        config = folder / "nats.conf"
        config.write_text(CONFIG.format(port=port, folder=folder, sync=", sync_interval: always" if always else ""))
        with server([program, "-c", str(config)], port, folder / "log") as pid:
            yield JetStream(port, pid, always=always)


class JetStream:
    """A client of that server."""

    def __init__(self, port: int, pid: int, *, always: bool) -> None:
        self.pid = pid
        self._url = f"nats://127.0.0.1:{port}"
        self.name = "JetStream" if always else "JetStream (default sync)"
        self.settings = f"file storage, Nats-Msg-Id, sync_interval {'always' if always else 'default (2 min)'}"
        self.settings = f"{asyncio.run(self._create_stream())}, {self.settings}"

    def batches(self, items: Sequence[Item], size: int, in_flight: int) -> Rate:
        """Publish `size` messages and await their acknowledgements, `in_flight` such batches at a time."""
        return asyncio.run(self._windowed(items, size, in_flight))

    def overload(self, items: Sequence[Item], size: int, in_flight: int, offered: float) -> Rate:
        """Publish as many messages at once, and what is refused again: `offered` messages a second in all."""
        return asyncio.run(self._overload(items, size * in_flight, Pace(offered)))

    def singles(self, items: Sequence[Item], in_flight: int) -> Rate:
        """Publish one message at a time, `in_flight` of them unacknowledged."""
        return asyncio.run(self._windowed(items, 1, in_flight))

    def one_by_one(self, items: Sequence[Item]) -> list[float]:
        """Publish and await the acknowledgement, message by message."""
        return asyncio.run(self._one_by_one(items))

    def trickle(self, batches: Iterable[Sequence[Item]], pause: float) -> None:
        """Publish batch after batch, the messages of one at once, and await their acknowledgements."""
        asyncio.run(self._trickle(batches, pause))

    def follow(self, take: Callable[[str], bool]) -> None:
        """Follow the whole stream with an ordered push consumer."""
        asyncio.run(self._follow(take))

    @asynccontextmanager
    async def sender(self) -> AsyncIterator[Callable[[Item], Awaitable[object]]]:
        """Provide what publishes one message and awaits its acknowledgement, on one connection."""
        async with await nats.connect(self._url) as connection:
            stream = connection.jetstream()
            yield lambda item: stream.publish(f"r.{item.session}", item.body, headers={"Nats-Msg-Id": item.key})

    async def _create_stream(self) -> str:
        async with await nats.connect(self._url) as connection:
            await connection.jetstream().add_stream(name="receipts", subjects=["r.>"], storage="file")
            version = connection.connected_server_version
            return f"nats-server {version.major}.{version.minor}.{version.patch}"

    async def _windowed(self, items: Sequence[Item], size: int, in_flight: int) -> Rate:
        async with await nats.connect(self._url, pending_size=16 * 1024 * 1024) as connection:
            window = _Window()
            inbox = connection.new_inbox()
            # Unlimited: a slow consumer's messages would be dropped, and acknowledgements never counted.
            await connection.subscribe(inbox, cb=window.acknowledge, pending_msgs_limit=-1, pending_bytes_limit=-1)
            watch = Stopwatch()
            for start in range(0, len(items), size):
                await window.below(start - (in_flight - 1) * size)
                for item in items[start : start + size]:
                    headers = {"Nats-Msg-Id": item.key}
                    await connection.publish(f"r.{item.session}", item.body, reply=inbox, headers=headers)
            await window.below(len(items))
            return watch.rate(window.acknowledged)

    async def _overload(self, items: Sequence[Item], in_flight: int, pace: Pace) -> Rate:
        async with await nats.connect(self._url, pending_size=16 * 1024 * 1024) as connection:
            inbox = connection.new_inbox()
            crowd = _Crowd(items)
            await connection.subscribe(f"{inbox}.*", cb=crowd.answered, pending_msgs_limit=-1, pending_bytes_limit=-1)
            watch = Stopwatch()
            # Under overload it leaves messages without an answer; where it never recovers, the rate says so.
            while crowd.acknowledged < len(items) and watch.seconds < _MOST_S:
                if not crowd.waiting or len(crowd.under_way) >= in_flight:
                    await crowd.next_answer()
                elif wait := pace.wait():
                    await asyncio.sleep(wait)
                else:
                    item, reply = crowd.send(inbox)
                    headers = {"Nats-Msg-Id": item.key}
                    await connection.publish(f"r.{item.session}", item.body, reply=reply, headers=headers)
                    pace.spend(1)
            return replace(watch.rate(crowd.acknowledged), refusals=crowd.refusals)

    async def _one_by_one(self, items: Sequence[Item]) -> list[float]:
        seconds = []
        async with await nats.connect(self._url) as connection:
            stream = connection.jetstream()
            for item in items:
                started = time.perf_counter()
                try:
                    await stream.publish(f"r.{item.session}", item.body, headers={"Nats-Msg-Id": item.key})
                except APIError as fault:
                    raise RefusedError(str(fault)) from None
                seconds.append(time.perf_counter() - started)
        return seconds

    async def _trickle(self, batches: Iterable[Sequence[Item]], pause: float) -> None:
        async with self.sender() as send:
            async for batch in paced(batches, pause):
                await asyncio.gather(*(send(one) for one in batch))

    async def _follow(self, take: Callable[[str], bool]) -> None:
        async with await nats.connect(self._url) as connection:
            following = await connection.jetstream().subscribe("r.>", ordered_consumer=True)
            async for message in following.messages:
                if take(json.loads(message.data)["key"]):
                    return


class _Crowd:
    """Messages that wait or are under way; those that the server refuses because it has too many wait again."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.waiting = deque(items)
        self.under_way: dict[str, tuple[float, Item]] = {}
        self.refusals: list[float] = []
        self.acknowledged = 0
        self._numbers = itertools.count()
        self._heard = asyncio.Event()

    def send(self, inbox: str) -> tuple[Item, str]:
        """Take the next message; return it with the subject of its answer."""
        item, reply = self.waiting.popleft(), f"{inbox}.{next(self._numbers)}"
        self.under_way[reply] = time.perf_counter(), item
        return item, reply

    async def answered(self, message: Any) -> None:
        if (found := self.under_way.pop(message.subject, None)) is None:
            return  # it was given up and is published again, under the same id
        began, item = found
        if b'"error"' not in message.data:
            self.acknowledged += 1
        elif json.loads(message.data)["error"]["code"] == _TOO_MANY:
            self.refusals.append(time.perf_counter() - began)
            self.waiting.append(item)
        else:
            raise RuntimeError(message.data)
        self._heard.set()

    async def next_answer(self) -> None:
        """Wait for an answer; where none comes for seconds, all that is under way waits again."""
        self._heard.clear()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._heard.wait()
        except TimeoutError:
            self.waiting.extend(item for _, item in self.under_way.values())
            self.under_way.clear()


class _Window:
    """Counts acknowledgements and wakes the publisher when enough have come."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self._wanted = 0
        self._reached = asyncio.Event()

    async def acknowledge(self, message: Any) -> None:
        # An error is an answer as well: it must not count as an acknowledgement.
        if b'"error"' in message.data:
            raise RuntimeError(message.data)
        self.acknowledged += 1
        if self.acknowledged >= self._wanted:
            self._reached.set()

    async def below(self, wanted: int) -> None:
        while self.acknowledged < wanted:
            self._wanted = wanted
            self._reached.clear()
            await self._reached.wait()
