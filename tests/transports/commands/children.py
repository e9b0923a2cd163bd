"""Children of every kind, in sh and in Python, and what is left of them."""

import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import anyio
import psutil

from lifebus_transports.commands import Commands, CommandSpec

SECONDS = 20.0
ANSWER = json.dumps({"schema_version": "lifeloop.v0.2", "status": "observed"})
SMALL = b'{"question":"small"}\n'
LARGE = b'{"question":"' + b"x" * 200_000 + b'"}\n'
MARK = "LC_LIFEBUS_MARK"
"""A variable that every command gets, and that its children keep."""


def sh(script: str, **options: object) -> CommandSpec:
    return CommandSpec(argv=("/bin/sh", "-c", script.replace("ANSWER", f"'{ANSWER}'")), **options)  # type: ignore[arg-type]


def python(script: str, **options: object) -> CommandSpec:
    prelude = f"import os, signal, sys, time\nANSWER = {ANSWER!r}\n"
    argv = (sys.executable, "-I", "-S", "-c", prelude + script)
    return CommandSpec(argv=argv, **options)  # type: ignore[arg-type]


def marked(mark: str) -> list[str]:
    """Return the ids of the processes that were started under a mark and live, their descendants included."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:  # somebody else's, or gone
            continue
    return found


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that nobody tells of."""
    with anyio.fail_after(SECONDS):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.005)


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Fail unless, when the block is over, no process of it, no zombie and no descriptor is left."""
    mark, before = uuid4().hex, descriptors()
    os.environ[MARK] = mark
    children = {child.pid for child in psutil.Process().children()}
    try:
        yield
        await until(lambda: not marked(mark) and children >= {child.pid for child in psutil.Process().children()})
    finally:
        del os.environ[MARK]
    assert descriptors() == before


@asynccontextmanager
async def commands() -> AsyncIterator[Commands]:
    """Somebody who runs commands, and waits for what they leave behind."""
    async with nothing_left(), anyio.create_task_group() as tasks:
        yield Commands(tasks)
