"""What passes through `lifebus app-server tee` and `run` is on the bus, and the bus is never in the way of it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

import lifebus
from lifebus.observer.reader import Deadlines, deadlines
from lifebus.observer.stream import AppServerStream
from lifebus.proxy.shared_memory import REPORTED
from lifebus.signals import SignalReceived
from lifebus_adapters.app_server.reader import Observed, SignalSeen
from lifebus_contract import Receipt
from lifebus_supervisor.daemon.composition import Daemon
from support.adapters.app_server_recordings import RECORDINGS, chunks_of, feed, wire
from support.broker_process import broker_process
from support.clients.proxy_box import (
    CAT,
    ProxyBox,
    eventually,
    positions,
    proxy_box,
    python,
    read_exactly,
    reported,
    write_all,
)
from support.paths import SUPPORT
from support.patience import PATIENCE_S
from support.running import connected, running_bus, short_directory, until_answered

SERVER = (sys.executable, str(SUPPORT / "clients/fake_app_server.py"))
DELTA = wire({"method": "item/agentMessage/delta", "params": {"threadId": "t1", "turnId": "u1", "delta": "x" * 100}})
TRIES = 3
"""How often a time is measured on a machine that does other things, too, before it counts as too long."""
NOTICE = wire({"method": "thread/started", "params": {"thread": {"id": "t1"}}})


def play(process: "subprocess.Popen[bytes]", recording: Path) -> None:
    """Be the client of a recording: say its lines, and see that every answer comes back byte for byte."""
    for direction, data, _ in chunks_of(recording):
        if direction == "in":
            write_all(process, data)
        else:
            assert read_exactly(process, len(data)) == data


async def signals_of(bus: lifebus.Bus) -> dict[str, list[dict[str, Any]]]:
    """Every signal that the bus has, by its thread, without the time at which it came."""
    found: dict[str, list[dict[str, Any]]] = {}
    async for item in bus.signals(since="start", until_head=True):
        assert isinstance(item, SignalReceived)
        found.setdefault(item.thread, []).append(timeless(item.raw))
    return found


def timeless(document: Any) -> dict[str, Any]:
    plain = json.loads(document) if isinstance(document, bytes | str) else dict(document)
    return {key: value for key, value in plain.items() if key != "receivedAt"}


def expected_signals(observed: Sequence[Observed]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in observed:
        if isinstance(one, SignalSeen):
            found.setdefault(one.thread or "", []).append(timeless(one.signal))
    return found


async def receipts_of(daemon: Daemon) -> list[Receipt]:
    async with connected(daemon) as bus:
        found = [item async for item in bus.receipts(since="start", until_head=True)]
    return [item for item in found if isinstance(item, Receipt)]


async def receipts_once(daemon: Daemon, wanted: Callable[[Sequence[Receipt]], object] = bool) -> list[Receipt]:
    """Return the receipts once they are those that are waited for, or else there are any."""
    async with asyncio.timeout(PATIENCE_S):
        return await until_answered(partial(receipts_of, daemon), wanted)


async def finished(box: ProxyBox) -> None:
    """Wait until the observer has reported everything and is gone."""
    await asyncio.to_thread(eventually, box.is_quiet)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
async def test_a_recording_passes_unchanged_and_the_bus_has_all_of_it(recording: Path) -> None:
    kind = "run" if recording.stem.startswith("turn_") else "tee"
    with short_directory() as base:
        box = ProxyBox(base, kind)
        server = (*SERVER, str(recording))
        async with running_bus(directory=base) as daemon, connected(daemon) as bus:
            with box.started(server, env={**box.env, "PYTHONPATH": box.python_path(*sys.path)}) as process:
                await asyncio.to_thread(play, process, recording)
                # All of it comes while the server lives, however slow the machine: after its end there are two seconds.
                expected = expected_signals(feed(AppServerStream(), chunks_of(recording)))
                observer, sizes = await asyncio.to_thread(box.observer), sizes_of(recording)
                await asyncio.to_thread(eventually, lambda: positions(observer, REPORTED) == sizes)
                await end(process)
            await finished(box)
            receipts = await receipts_once(daemon, is_over)
            assert await signals_of(bus) == expected
        assert "receipt.gap_detected" not in [receipt.event for receipt in receipts]


def sizes_of(recording: Path) -> set[int]:
    """How many bytes go in each direction."""
    sizes = {"in": 0, "out": 0}
    for direction, data, _ in chunks_of(recording):
        sizes[direction] += len(data)
    return set(sizes.values())


def is_over(receipts: Sequence[Receipt]) -> bool:
    """Whether every session that has started has ended."""
    events = [str(receipt.event) for receipt in receipts]
    return events.count("session.started") == events.count("session.ended")


def has_ended(receipts: Sequence[Receipt]) -> bool:
    """Whether there was a session, and none is left."""
    return bool(receipts) and is_over(receipts)


async def test_without_a_broker_the_end_is_a_receipt_of_the_next_one() -> None:
    with short_directory() as base:
        box = ProxyBox(base, patient=False)
        assert await asyncio.to_thread(box.run, CAT, NOTICE) == (0, NOTICE, b"")
        await finished(box)
        await asyncio.to_thread(eventually, lambda: bool(box.final_calls()))
        async with running_bus(directory=base) as daemon:
            (gap,) = await receipts_once(daemon)
    assert gap.event == "receipt.gap_detected"
    lost = {"missed_messages": 1, "missed_bytes": len(NOTICE)}  # the server's; the client's own line says nothing
    assert ({"source_hook": "app_server_end", "exit_code": 0} | lost).items() <= gap.telemetry_summary.items()


async def test_a_broker_that_comes_late_gets_what_was_said_before() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        with box.started(CAT) as process:
            await asyncio.to_thread(write_all, process, NOTICE)
            await asyncio.to_thread(read_exactly, process, len(NOTICE))
            async with running_bus(directory=base) as daemon, connected(daemon) as bus:
                item = await anext(bus.signals(since="start"))
                assert isinstance(item, SignalReceived)
                assert item.thread == "t1"
                process.kill()
                await finished(box)
                (_, ended) = await receipts_once(daemon, has_ended)
    assert ended.event == "session.ended"
    assert ended.telemetry_summary["passage"] == "killed"


async def say(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    """Say something to a program that says it back, and see that it comes back."""
    writing = asyncio.to_thread(write_all, process, data)
    reading = asyncio.to_thread(read_exactly, process, len(data))
    _, came = await asyncio.wait_for(asyncio.gather(writing, reading), PATIENCE_S)
    assert came == data


async def end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0


async def observer_at_work(box: ProxyBox, process: "subprocess.Popen[bytes]") -> psutil.Process:
    """Return the observer of a started program once it has reported a first notice."""
    observer = await asyncio.to_thread(box.observer)
    await say(process, NOTICE)
    await asyncio.to_thread(reported, observer, len(NOTICE))
    return observer


async def test_a_broker_that_hangs_delays_nothing_and_gets_all_of_it_later() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        async with (
            broker_process(base) as broker,
            lifebus.connect(runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            with box.started(CAT) as process:
                await say(process, DELTA)
                await until_answered(bus.status, lambda status: status.counters["signals_stored"])
                broker.signal(signal.SIGSTOP)
                for _ in range(20):
                    await say(process, DELTA * 100)
                broker.signal(signal.SIGCONT)
                await asyncio.to_thread(reported, box.observer(), 2_001 * len(DELTA))
                await end(process)
            await finished(box)
            assert (await bus.status()).counters["signals_stored"] == 2_001


async def outlived(base: Path) -> tuple[float, float]:
    """Return for how long an observer outlived its server beside a stopped broker, and what a start takes here."""
    box = ProxyBox(base, patient=False)
    async with broker_process(base) as broker:
        with box.started(CAT) as process:
            await observer_at_work(box, process)
            broker.signal(signal.SIGSTOP)
            await say(process, DELTA)
            await end(process)
        began = time.monotonic()
        await finished(box)  # a zombie is no process: when it goes is up to its new parent
        lasted = time.monotonic() - began
        busy = await asyncio.to_thread(time_to_start)
        await asyncio.to_thread(eventually, lambda: bool(box.final_calls()))
        (call,) = box.final_calls()
        broker.signal(signal.SIGCONT)
    left = {"exit_code": 0, "missed_messages": 1, "missed_bytes": len(DELTA)}
    assert left.items() <= json.loads(call.stdin).items()
    return lasted, busy


async def test_with_a_stopped_broker_the_observer_outlives_its_server_by_two_seconds_at_most() -> None:
    measured: list[tuple[float, float]] = []
    while not measured or measured[-1][0] >= 2 + 5 * measured[-1][1]:
        # what else runs on the machine makes it longer, and nothing makes it shorter
        assert len(measured) < TRIES, measured
        with short_directory() as base:
            measured.append(await outlived(base))


LAST_CALL = """import os, sys
from pathlib import Path
from lifebus.observer.final_hook_call import call_final_hook
from lifebus.observer.sender import ObservedRun
from lifebus_transports.messages.signals import ObservedLoss
run, lost = ObservedRun("codex", "here"), ObservedLoss(messages=7, bytes=70)
call_final_hook(run, Path(os.environ["LIFEBUS_RUNTIME_DIR"]), 0, lost, seconds=0.0)
os._exit(0)
"""
STOPPED = """import subprocess
class Popen(subprocess.Popen):
    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        super().wait()
subprocess.Popen = Popen
"""
"""A machine on which a process stands still from the start of another one to its end."""


def test_the_last_call_is_made_also_where_the_machine_takes_longer_to_start_it_than_the_observer_waits() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        subprocess.run((sys.executable, "-c", LAST_CALL), env=box.env, check=True, timeout=PATIENCE_S)
        eventually(lambda: bool(box.final_calls()) and box.is_quiet())
        (call,) = box.final_calls()
    assert {"exit_code": 0, "missed_messages": 7}.items() <= json.loads(call.stdin).items()


def test_the_last_call_is_whole_also_where_the_observer_stands_still_while_it_is_made() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        subprocess.run((sys.executable, "-c", STOPPED + LAST_CALL), env=box.env, check=True, timeout=PATIENCE_S)
        eventually(lambda: bool(box.final_calls()) and box.is_quiet())
        (call,) = box.final_calls()
    assert {"exit_code": 0, "missed_messages": 7}.items() <= json.loads(call.stdin).items()


def time_to_start() -> float:
    """How long the machine takes just now to run a little program at the observer's priority, in seconds."""
    began = time.monotonic()
    subprocess.run(("nice", "-n", "10", *python("")), check=True)
    return time.monotonic() - began


def test_the_time_to_leave_counts_from_the_servers_end_and_not_from_when_it_was_noticed() -> None:
    assert deadlines(10_000, 10.1) == Deadlines(11.0, 12.0)
    assert deadlines(None, 10.0) == Deadlines(11.0, 12.0)
    assert deadlines(10_000, 13.0) == Deadlines(13.4, 13.8)  # it has just started: the broker gets a chance, no more


async def test_a_broker_that_is_killed_delays_nothing_and_what_it_missed_is_a_receipt_of_the_next_one() -> None:
    with short_directory() as base:
        box = ProxyBox(base, patient=False)
        async with broker_process(base) as broker:
            with box.started(CAT) as process:
                await asyncio.to_thread(box.observer)
                await broker.kill()
                for _ in range(20):
                    await say(process, DELTA * 100)
                await end(process)
            await finished(box)
            await asyncio.to_thread(eventually, lambda: bool(box.final_calls()))
        async with running_bus(directory=base) as daemon:
            (gap,) = await receipts_once(daemon)
    assert gap.telemetry_summary["missed_messages"] == 2_000
    assert gap.telemetry_summary["missed_bytes"] == 2_000 * len(DELTA)


async def test_what_is_no_json_passes_and_is_counted() -> None:
    junk = b"\x00\xff no json \n" * 50_000
    with short_directory() as base:
        box = ProxyBox(base)
        async with running_bus(directory=base) as daemon:
            with box.started(CAT) as process:
                await say(process, junk)
                await asyncio.to_thread(reported, box.observer(), len(junk))
                await end(process)
            await finished(box)
            async with connected(daemon) as bus, asyncio.timeout(PATIENCE_S):
                status = await until_answered(bus.status, lambda status: status.counters["lines_dropped"])
            counters = status.counters
            assert (counters["signals_stored"], counters["lines_dropped"]) == (0, 2 * 50_000)


async def test_what_was_dropped_is_counted_in_the_end_of_the_session() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        async with running_bus(directory=base) as daemon:
            said = NOTICE + b"no json\n[]\n"
            with box.started(CAT) as process:
                await say(process, said)
                await asyncio.to_thread(reported, box.observer(), len(said))
                await end(process)
            await finished(box)
            (_, ended) = await receipts_once(daemon, has_ended)
    assert {"exit_code": 0, "junk": 4, "overlong": 0, "lost": 0}.items() <= ended.telemetry_summary.items()


def test_a_killed_proxy_leaves_a_program_that_sees_the_end_and_no_process() -> None:
    with proxy_box() as box:
        with box.started(python("import sys; print('up', flush=True); sys.stdin.read()")) as process:
            assert read_exactly(process, 3) == b"up\n"
            process.kill()
            process.wait(PATIENCE_S)
        eventually(lambda: box.is_quiet() and bool(box.final_calls()))
        (call,) = box.final_calls()
    assert json.loads(call.stdin)["exit_code"] is None


def test_the_exit_waits_for_no_observer_and_the_observer_holds_no_stream() -> None:
    with proxy_box() as box:
        with box.started(CAT) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            observer = box.observer()
            observer.suspend()
            process.stdin.close()
            assert process.stdout.read() == b""
            assert process.wait(PATIENCE_S) == 0
            observer.resume()
        eventually(box.is_quiet)


def held_by(pid: int) -> list[str]:
    """What the descriptors of a process stand for."""
    found: list[str] = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # just closed
            found.append(str(link.readlink()))
    return found


def test_a_descriptor_that_the_client_gave_is_not_held_by_the_observer() -> None:
    ours, theirs = os.pipe()
    name = f"pipe:[{os.fstat(theirs).st_ino}]"
    with proxy_box() as box, box.started(CAT, pass_fds=(theirs,)):
        observer = box.observer().pid
        eventually(lambda: name not in held_by(observer))
    os.close(ours)
    os.close(theirs)
