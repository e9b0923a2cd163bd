"""Recordings of the real app-server as bytes, and what a reader makes of them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from lifebus.observer.stream import AppServerStream
from lifebus_adapters.app_server.facts import AppServerFact
from lifebus_adapters.app_server.reader import FactSeen, Observed, SignalSeen
from support.paths import CAPTURES

RECORDINGS = sorted((CAPTURES / "app_server").glob("*.jsonl"))
START_MS = 1_795_297_000_000

Chunk = tuple[Literal["in", "out"], bytes, int]
"""Which way, what, and when in milliseconds."""


def chunks_of(recording: Path) -> list[Chunk]:
    """Every line of a recording as the wire had it."""
    found: list[Chunk] = []
    for line in recording.read_text().splitlines():
        record = json.loads(line)
        found.append((record["dir"], wire(record["msg"]), START_MS + round(record["t"] * 1_000)))
    return found


def wire(message: Any) -> bytes:
    """A message as a line; text stands for a line that is no JSON."""
    return (message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)).encode() + b"\n"


def feed(reader: AppServerStream, chunks: Sequence[Chunk]) -> list[Observed]:
    return [seen for direction, data, at_ms in chunks for seen in reader.feed(direction, data, at_ms)]


def read_messages(*messages: Any, reader: AppServerStream | None = None) -> list[Observed]:
    """What a reader makes of messages of the server; a client's stand in a tuple of one."""
    chunks: list[Chunk] = [
        ("in", wire(one[0]), START_MS) if isinstance(one, tuple) else ("out", wire(one), START_MS) for one in messages
    ]
    return feed(reader or AppServerStream(), chunks)


def signals(observed: Sequence[Observed]) -> list[dict[str, Any]]:
    return [json.loads(seen.signal) for seen in observed if isinstance(seen, SignalSeen)]


def names(observed: Sequence[Observed]) -> list[str]:
    return [seen.event_type for seen in observed if isinstance(seen, SignalSeen)]


def facts(observed: Sequence[Observed]) -> list[AppServerFact]:
    return [seen.fact for seen in observed if isinstance(seen, FactSeen)]


def notice(method: str, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": params}


def thread(session: str = "t1", /, **changes: Any) -> dict[str, Any]:
    """A thread's own record, with the keys that matter."""
    record = {"id": session, "sessionId": session, "source": "vscode", "threadSource": None, "parentThreadId": None}
    return record | {"ephemeral": False, "forkedFromId": None, "name": None, "projectId": None, "model": "m"} | changes


def started(session: str = "t1", /, **changes: Any) -> dict[str, Any]:
    return notice("thread/started", thread=thread(session, **changes))


def turn(method: str, session: str = "t1", turn_id: str = "u1", /, **changes: Any) -> dict[str, Any]:
    return notice(method, threadId=session, turn={"id": turn_id, **changes})


def cut(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """The data in pieces of these sizes, over and over."""
    at = step = 0
    while at < len(data):
        size = sizes[step % len(sizes)]
        yield data[at : at + size]
        at, step = at + size, step + 1
