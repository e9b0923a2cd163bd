"""Descriptors of `lifebus dev stdio`: never made non-blocking, never in the way of the event loop."""

import asyncio
import fcntl
import os
import pty
import socket
import tty
from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest

from lifebus.stdio.streams import DescriptorReader, DescriptorWriter
from support.patience import PATIENCE_S

MEGABYTE = bytes(range(256)) * 4_096
Pair = tuple[int, int]


def pipe() -> Pair:
    return os.pipe()


def sockets() -> Pair:
    one, other = socket.socketpair()
    return one.detach(), other.detach()


def terminal() -> Pair:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    return ours, theirs


KINDS = pytest.mark.parametrize("make", [pipe, sockets, terminal])


def closed_later(stack: ExitStack, pair: Pair) -> Pair:
    for descriptor in pair:
        stack.callback(os.close, descriptor)
    return pair


async def read_all(inlet: DescriptorReader, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        data += await inlet.read()
    return bytes(data)


@KINDS
async def test_much_is_written_while_it_is_read_and_the_descriptor_stays_as_it_was(make: Callable[[], Pair]) -> None:
    with ExitStack() as stack:
        reading, writing = closed_later(stack, make())
        before = [fcntl.fcntl(descriptor, fcntl.F_GETFL) for descriptor in (reading, writing)]
        outlet = stack.enter_context(closing(DescriptorWriter(writing)))
        async with asyncio.timeout(PATIENCE_S):
            _, data = await asyncio.gather(outlet.write(MEGABYTE), read_all(DescriptorReader(reading), len(MEGABYTE)))
        assert data == MEGABYTE
        assert [fcntl.fcntl(descriptor, fcntl.F_GETFL) for descriptor in (reading, writing)] == before


@KINDS
async def test_a_writer_that_nobody_reads_leaves_the_loop_free(make: Callable[[], Pair]) -> None:
    with ExitStack() as stack:
        _, writing = closed_later(stack, make())
        outlet = stack.enter_context(closing(DescriptorWriter(writing)))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await outlet.write(MEGABYTE)


@pytest.mark.parametrize("make", [pipe, sockets])
async def test_a_descriptor_that_somebody_made_non_blocking_is_as_good(make: Callable[[], Pair]) -> None:
    with ExitStack() as stack:
        reading, writing = closed_later(stack, make())
        for descriptor in (reading, writing):
            os.set_blocking(descriptor, False)
        outlet = stack.enter_context(closing(DescriptorWriter(writing)))
        async with asyncio.timeout(PATIENCE_S):
            _, data = await asyncio.gather(outlet.write(MEGABYTE), read_all(DescriptorReader(reading), len(MEGABYTE)))
        assert data == MEGABYTE


@pytest.mark.parametrize("make", [pipe, sockets])
async def test_whoever_reads_no_more_breaks_the_pipe(make: Callable[[], Pair]) -> None:
    reading, writing = make()
    with closing(DescriptorWriter(writing)) as outlet:
        os.close(reading)
        with pytest.raises(BrokenPipeError):
            await outlet.write(b"x")
    os.close(writing)


@KINDS
async def test_whoever_hangs_up_ends_the_input(make: Callable[[], Pair]) -> None:
    ours, theirs = make()
    reading, writing = (theirs, ours) if make is terminal else (ours, theirs)
    os.close(writing)
    async with asyncio.timeout(PATIENCE_S):
        assert await DescriptorReader(reading).read() == b""
    os.close(reading)


async def test_a_read_that_is_cancelled_loses_nothing() -> None:
    with ExitStack() as stack:
        reading, writing = closed_later(stack, pipe())
        inlet = DescriptorReader(reading)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await inlet.read()
        os.write(writing, b"later")
        assert await inlet.read() == b"later"
