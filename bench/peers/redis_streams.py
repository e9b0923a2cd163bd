"""Redis Streams: one Lua call a receipt checks the key, numbers, appends and publishes; `appendfsync always`.

The client is redis-py with its C parser; where many single messages are in flight it is the bare C parser on a
socket, since that is the fastest a Python program can talk to Redis.
"""

import asyncio
import hashlib
import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import hiredis
import redis

from bench.peers.process import find_program, free_port, server, workspace
from bench.workload import Item, Peer, Rate, Stopwatch, chunks, paced

SCRIPT = """
local known = redis.call('GET', KEYS[1])
if known then return known end
local sequence = redis.call('INCR', KEYS[2])
redis.call('XADD', KEYS[3], '*', 'q', sequence, 'r', ARGV[1])
redis.call('SET', KEYS[1], sequence)
redis.call('PUBLISH', KEYS[3], ARGV[1])
return sequence
"""
SHA = hashlib.sha1(SCRIPT.encode()).hexdigest()  # Redis names its scripts so


@contextmanager
def running() -> Iterator[Peer | None]:
    """Provide a Redis of our own with every write synced, or None where redis-server is not installed."""
    program = find_program("redis-server")
    if program is None:
        yield None
        return
    port = free_port()
    with workspace() as folder:
        command = [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""]
        command += ["--appendonly", "yes", "--appendfsync", "always"]
        with server(command, port, folder / "log") as pid:
            yield RedisStreams(port, pid)


class RedisStreams:
    """A client of that Redis."""

    name = "Redis Streams"

    def __init__(self, port: int, pid: int) -> None:
        self.pid = pid
        self._address = ("127.0.0.1", port)
        self._redis = redis.Redis("127.0.0.1", port)
        self._redis.script_load(SCRIPT)
        version = self._redis.info("server")["redis_version"]
        self.settings = f"redis {version}, appendonly yes, appendfsync always, 1 EVALSHA a receipt"

    def batches(self, items: Sequence[Item], size: int, in_flight: int) -> Rate:
        """Record the items by pipelines of `size` (redis-py), or by several such pipelines at once (bare parser)."""
        if in_flight > 1:
            return self._windowed(items, size, in_flight)
        watch, acknowledged = Stopwatch(), 0
        for batch in chunks(items, size):
            acknowledged += self._record(batch)
        return watch.rate(acknowledged)

    def overload(self, items: Sequence[Item], size: int, in_flight: int, offered: float) -> Rate:  # noqa: ARG002
        """Record the items by `in_flight` batches at once: this server refuses none."""
        return self.batches(items, size, in_flight)

    def singles(self, items: Sequence[Item], in_flight: int) -> Rate:
        """Record the items by one command each, `in_flight` at a time on one connection."""
        return self._windowed(items, 1, in_flight)

    def one_by_one(self, items: Sequence[Item]) -> list[float]:
        """Record the items one after the other (redis-py)."""
        seconds = []
        for item in items:
            started = time.perf_counter()
            self._redis.evalsha(SHA, 3, *_keys(item), item.body)
            seconds.append(time.perf_counter() - started)
        return seconds

    def trickle(self, batches: Iterable[Sequence[Item]], pause: float) -> None:
        """Record pipeline after pipeline (redis-py)."""
        asyncio.run(self._trickle(batches, pause))

    def follow(self, take: Callable[[str], bool]) -> None:
        """Read the stream of session 0 from its start, with XREAD BLOCK (redis-py)."""
        client, last = redis.Redis(*self._address), b"0"
        while True:
            for _, entries in client.xread({"s:0": last}, count=1_000, block=10_000):
                for last, fields in entries:  # noqa: B007  read after the loop
                    if take(json.loads(fields[b"r"])["key"]):
                        return

    async def _trickle(self, batches: Iterable[Sequence[Item]], pause: float) -> None:
        async for batch in paced(batches, pause):
            # Not awaited: nothing else runs on this loop, and redis-py is faster so.
            self._record(batch)

    def _record(self, batch: Sequence[Item]) -> int:
        pipeline = self._redis.pipeline(transaction=False)
        for item in batch:
            pipeline.evalsha(SHA, 3, *_keys(item), item.body)
        return len(pipeline.execute())

    def _windowed(self, items: Sequence[Item], size: int, in_flight: int) -> Rate:
        reader = hiredis.Reader()
        with socket.create_connection(self._address) as connection:
            # Nagle's algorithm would hold small commands back until an acknowledgement comes.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            watch, sent, acknowledged = Stopwatch(), 0, 0
            while acknowledged < len(items):
                # A window, not a pipeline: as many commands are under way as with the others.
                while sent < len(items) and sent - acknowledged <= (in_flight - 1) * size:
                    connection.sendall(b"".join(map(_command, items[sent : sent + size])))
                    sent += len(items[sent : sent + size])
                reader.feed(connection.recv(65536))
                acknowledged += _count(reader)
            return watch.rate(acknowledged)


def _keys(item: Item) -> tuple[str, str, str]:
    return f"k:{item.key}", f"q:{item.session}", f"s:{item.session}"


def _command(item: Item) -> bytes:
    packed: bytes = hiredis.pack_command(("EVALSHA", SHA, 3, *_keys(item), item.body))
    return packed


def _count(reader: Any) -> int:
    answers = 0
    while (answer := reader.gets()) is not False:
        if isinstance(answer, Exception):
            raise answer
        answers += 1
    return answers
