"""Children of every kind, in sh and in Python, and what is left of them."""

import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from unittest import mock

import anyio

from lifebus_transports.processes.once import Commands
from lifebus_transports.processes.spec import CommandSpec
from support.fork_server import fork_server
from support.leftovers import MARK, Watch
from support.patience import PATIENCE_S

ANSWER = json.dumps({"schema_version": "lifeloop.v0.2", "status": "observed"})
SMALL = b'{"question":"small"}\n'
LARGE = b'{"question":"' + b"x" * 200_000 + b'"}\n'


def sh(script: str, **options: object) -> CommandSpec:
    return CommandSpec(argv=("/bin/sh", "-c", script.replace("ANSWER", f"'{ANSWER}'")), **options)  # type: ignore[arg-type]


def python(script: str, **options: object) -> CommandSpec:
    prelude = f"import os, signal, sys, time\nANSWER = {ANSWER!r}\n"
    argv = (sys.executable, "-I", "-S", "-c", prelude + script)
    return CommandSpec(argv=argv, **options)  # type: ignore[arg-type]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that nobody tells of."""
    with anyio.fail_after(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.005)


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Fail unless, when the block is over, no process of it, no zombie and no descriptor is left."""
    fork_server()  # it stays for the next test
    watch = Watch()
    with mock.patch.dict(os.environ, {MARK: watch.mark}):
        yield
        await until(lambda: not watch.leftovers(descriptors_too=False))
    assert watch.leftovers() == []


@asynccontextmanager
async def commands() -> AsyncIterator[Commands]:
    """Somebody who runs commands, and waits for what they leave behind."""
    async with nothing_left(), anyio.create_task_group() as tasks:
        yield Commands(tasks)
