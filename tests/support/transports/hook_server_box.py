"""A hook server in the test's own loop, and clients of it."""

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from lifebus_adapters.adapter import HookAnswer, HookCall
from lifebus_transports.framing.hook_frames import decode_answer, encode_call
from lifebus_transports.hooks.server import (
    CallerOf,
    HandleCall,
    HookServerCounters,
    HookServerLimits,
    OnAnswered,
    serve_hooks,
)
from support.patience import PATIENCE_S

PATIENT: Final = HookServerLimits(read_s=PATIENCE_S, answer_s=PATIENCE_S, handle_s=PATIENCE_S)
"""Limits that no call reaches which a test does not hold up."""


def a_call(**changes: object) -> HookCall:
    """Return a good call, with changes."""
    plain = {"call_id": "c1", "adapter_id": "codex", "hook": "Stop", "cwd": "/", "env": {}, "stdin": b"{}"}
    return HookCall(**{**plain, **changes})  # type: ignore[arg-type]


async def echo(call: HookCall) -> HookAnswer:
    return HookAnswer(stdout=call.stdin, exit_code=len(call.hook))


@contextmanager
def short_directory() -> Iterator[Path]:
    """A directory whose path is short enough for a socket, wherever the tests run."""
    with tempfile.TemporaryDirectory(prefix="lb-") as name:
        yield Path(name)


@asynccontextmanager
async def open_server(
    path: Path,
    handle: HandleCall = echo,
    limits: HookServerLimits | None = None,
    *,
    caller_of: CallerOf | None = None,
    on_answered: OnAnswered | None = None,
) -> AsyncIterator[HookServerCounters]:
    """Serve hook calls at `path` inside the block; without limits they may take as long as a test waits."""
    counters, limits = HookServerCounters(), limits or PATIENT
    async with anyio.create_task_group() as tasks:
        serve = partial(serve_hooks, path, handle, limits=limits, counters=counters, caller_of=caller_of)
        await tasks.start(partial(serve, on_answered=on_answered))
        try:
            yield counters
        finally:
            tasks.cancel_scope.cancel()


async def talk(path: Path, *pieces: bytes, finish: bool = True) -> bytes:
    """Send the pieces, end the sending side, and return what comes until the server hangs up (or resets)."""
    with anyio.fail_after(PATIENCE_S):
        async with await anyio.connect_unix(path) as stream:
            answer = b""
            try:
                for piece in pieces:
                    await stream.send(piece)
                if finish:
                    await stream.send_eof()
                while True:
                    answer += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError, OSError):
                return answer


async def ask(path: Path, call: HookCall) -> HookAnswer:
    """Make an honest call."""
    return decode_answer(await talk(path, encode_call(call), finish=False))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition of the loop's own state."""
    with anyio.fail_after(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.001)  # a counter has no event to wait for


def waiting_for(event: anyio.Event, seen: list[HookCall]) -> Callable[[HookCall], Awaitable[HookAnswer]]:
    """Return a handler that keeps its calls and answers once the event is set."""

    async def handle(call: HookCall) -> HookAnswer:
        seen.append(call)
        await event.wait()
        return HookAnswer(stdout=b"at last")

    return handle
