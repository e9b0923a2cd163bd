"""Observers that are killed, and bursts that they cannot read: the next one goes on, and what was lost is told."""

import asyncio
import fcntl
import signal
import sys
import termios
from pathlib import Path

import anyio
import psutil

from clients.proxy.test_observer import DELTA, NOTICE, end, finished, has_ended, observer_at_work, receipts_once, say
from lifebus.proxy.shared_memory import REPORTED, TAIL
from support.broker_process import broker_process
from support.clients.proxy_box import CAT, ProxyBox, eventually, positions, python
from support.patience import PATIENCE_S
from support.running import connected, running_bus, short_directory, until_answered


async def test_an_observer_that_is_killed_loses_nothing_that_it_has_not_read() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        async with running_bus(directory=base) as daemon, connected(daemon) as bus:
            with box.started(CAT) as process:
                observer = await observer_at_work(box, process)
                observer.suspend()
                for _ in range(10):
                    await say(process, DELTA * 10)
                observer.kill()
                await until_answered(bus.status, lambda status: status.counters["signals_stored"] == 101)
                await end(process)
            await finished(box)
            receipts = await receipts_once(daemon, has_ended)
    assert [str(one.event) for one in receipts] == ["session.started", "session.ended"]
    assert receipts[-1].telemetry_summary["session_end"] == "completed"


async def test_what_a_killed_observer_had_read_and_not_reported_is_told_in_the_session() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        async with broker_process(base) as broker:
            with box.started(CAT) as process:
                observer = await observer_at_work(box, process)
                await broker.kill()
                await say(process, DELTA * 20)
                passed = len(NOTICE + DELTA * 20)
                await asyncio.to_thread(eventually, lambda: positions(observer, TAIL) == {passed})
                # What the client had said was read before the answers and says nothing: nothing of it is unreported.
                await asyncio.to_thread(eventually, lambda: positions(observer, REPORTED) == {passed, len(NOTICE)})
                observer.kill()
                async with running_bus(directory=base) as daemon, connected(daemon) as bus:
                    await say(process, DELTA)
                    await until_answered(bus.status, lambda status: status.counters["signals_stored"])
                    await end(process)
                    await finished(box)
                    receipts = await receipts_once(daemon, has_ended)
    assert [str(one.event) for one in receipts] == ["session.started", "receipt.gap_detected", "session.ended"]
    assert {one.harness_session_id for one in receipts} == {"t1"}
    assert receipts[1].telemetry_summary["missed_messages"] is None
    assert receipts[1].telemetry_summary["missed_bytes"] == len(DELTA * 20)
    assert {"session_end": "completed", "exit_code": 0}.items() <= receipts[2].telemetry_summary.items()


ENDS_ON_USR1 = """import os, signal, threading
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
threading.Thread(target=lambda: signal.sigwait({signal.SIGUSR1}) and os._exit(0), daemon=True).start()
while data := os.read(0, 65_536):
    os.write(1, data)
"""


async def test_a_server_that_ends_well_just_as_its_observer_is_killed_is_no_abandoned_one() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        async with running_bus(directory=base) as daemon:
            with box.started(python(ENDS_ON_USR1)) as process:
                observer = await observer_at_work(box, process)
                (server,) = [one for one in psutil.Process(process.pid).children() if one != observer]
                process.send_signal(signal.SIGSTOP)
                observer.kill()
                server.send_signal(signal.SIGUSR1)
                both = (observer, server)  # they wait for the proxy to wait for them
                await asyncio.to_thread(eventually, lambda: {one.status() for one in both} == {psutil.STATUS_ZOMBIE})
                process.send_signal(signal.SIGCONT)
                assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0
            # A process that has just begun may still look like none of the box's.
            receipts = await receipts_once(daemon, has_ended)
            await finished(box)
    assert [str(one.event) for one in receipts] == ["session.started", "session.ended"]
    assert {"session_end": "completed", "exit_code": 0}.items() <= receipts[1].telemetry_summary.items()


async def test_observers_that_are_killed_again_and_again_are_given_up_and_the_last_one_tells_the_loss() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        async with running_bus(directory=base) as daemon:
            with box.started(CAT) as process:
                for _ in range(4):
                    observer = await asyncio.to_thread(box.observer)
                    observer.kill()
                    await asyncio.to_thread(observer.wait, PATIENCE_S)
                for _ in range(3):
                    await say(process, NOTICE)
                await end(process)
            await finished(box)
            (gap,) = await receipts_once(daemon)
    assert gap.event == "receipt.gap_detected"
    assert (gap.telemetry_summary["missed_messages"], gap.telemetry_summary["missed_bytes"]) == (None, 6 * len(NOTICE))


async def test_after_a_burst_that_nobody_could_read_the_next_message_is_seen_and_the_loss_is_no_more_than_passed() -> (
    None
):
    with short_directory() as base:
        box = ProxyBox(base)
        async with running_bus(directory=base) as daemon, connected(daemon) as bus:
            with box.started(CAT) as process:
                observer = await observer_at_work(box, process)
                observer.suspend()
                burst = JUNK_LINE * (10 * 1_048_576 // len(JUNK_LINE))
                await say(process, burst)
                observer.resume()
                await asyncio.to_thread(eventually, lambda: is_caught_up(observer))
                await say(process, DELTA)
                with anyio.move_on_after(PATIENCE_S):
                    await until_answered(bus.status, lambda status: status.counters["signals_stored"] == 2)
                assert (await bus.status()).counters["signals_stored"] == 2
                await end(process)
            await finished(box)
            receipts = await receipts_once(daemon, has_ended)
    gaps = [one for one in receipts if one.event == "receipt.gap_detected"]
    assert len(gaps) == 2  # one for each direction
    for gap in gaps:
        assert gap.harness_session_id == "t1"
        assert gap.telemetry_summary["missed_messages"] is None
        assert 1_048_576 < int(str(gap.telemetry_summary["missed_bytes"])) <= len(burst)


JUNK_LINE = b"x" * 1_000 + b"\n"


def is_caught_up(observer: psutil.Process) -> bool:
    """Whether an observer has read all records and waits for more."""
    with Path(f"/proc/{observer.pid}/fd/4").open("rb", buffering=0) as records:
        waiting = fcntl.ioctl(records.fileno(), termios.FIONREAD, b"\0" * 4)
    return int.from_bytes(waiting, sys.byteorder) == 0
