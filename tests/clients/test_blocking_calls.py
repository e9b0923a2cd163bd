"""Calls from threads into a loop: each gets its own result, and none waits for another."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

import anyio
import anyio.lowlevel
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from lifebus._internal.following.blocking_calls import BlockingCalls, blocking_calls
from support.patience import PATIENCE_S


def returning(value: int) -> Callable[[], Awaitable[int]]:
    async def work() -> int:
        await anyio.lowlevel.checkpoint()
        return value

    return work


async def refuse() -> None:
    raise ValueError("as asked")


def test_each_call_gets_its_own_result_or_error_also_when_threads_call_at_once() -> None:
    with start_blocking_portal() as portal, blocking_calls(portal) as calls, ThreadPoolExecutor(8) as threads:

        def ask(number: int) -> int:
            return calls.call(returning(number))

        found = list(threads.map(ask, range(400)))
        with pytest.raises(ValueError, match="as asked"):
            calls.call(refuse)
        assert calls.call(returning(1)) == 1
    assert found == list(range(400))


def test_a_call_does_not_wait_for_one_that_is_under_way() -> None:
    begun = threading.Event()

    with start_blocking_portal() as portal, blocking_calls(portal) as calls, ThreadPoolExecutor(1) as thread:
        let_go = portal.call(_event)

        async def wait() -> str:
            begun.set()
            await let_go.wait()
            return "waited"

        first = thread.submit(calls.call, wait)
        assert begun.wait(PATIENCE_S)
        assert calls.call(returning(2)) == 2
        assert not first.done()
        portal.call(_set, let_go)
        assert first.result(PATIENCE_S) == "waited"


def test_a_call_that_is_under_way_ends_with_the_block() -> None:
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        await anyio.sleep_forever()

    with ThreadPoolExecutor(1) as thread:
        with start_blocking_portal() as portal, blocking_calls(portal) as calls:
            first = thread.submit(calls.call, wait)
            assert begun.wait(PATIENCE_S)
        assert isinstance(first.exception(PATIENCE_S), CancelledError)


async def test_a_call_that_comes_with_the_end_or_after_it_does_not_wait_for_ever() -> None:
    with_the_end, after = Future[int](), Future[int]()
    async with BlockingPortal() as portal:
        calls, ready = BlockingCalls(portal), Future[None]()
        running = asyncio.ensure_future(calls.run(ready))
        await asyncio.wrap_future(ready)
        calls._ask(returning(1), with_the_end)
        running.cancel()
        await asyncio.wait([running])
        calls._ask(returning(2), after)
    assert with_the_end.cancelled()
    assert after.cancelled()


async def _event() -> anyio.Event:
    return anyio.Event()


async def _set(event: anyio.Event) -> None:
    event.set()
