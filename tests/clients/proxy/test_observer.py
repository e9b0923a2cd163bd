"""What passes through `lifebus tee` and `lifebus run` is on the bus, and the bus is never in the way of it."""

import asyncio
import fcntl
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import lifebus
from lifebus.observer.reader import Deadlines, deadlines
from lifebus.observer.stream import AppServerStream
from lifebus.proxy.shared_memory import REPORTED, TAIL
from lifebus.signals import SignalReceived
from lifebus_adapters.app_server import Observed, SignalSeen
from lifebus_contract import Receipt
from lifebus_supervisor.daemon.composition import Daemon
from support.adapters.app_server_recordings import RECORDINGS, chunks_of, feed, wire
from support.broker_process import broker_process
from support.clients.proxy_box import (
    CAT,
    PATIENCE_S,
    ProxyBox,
    eventually,
    proxy_box,
    python,
    read_exactly,
    write_all,
)
from support.paths import SUPPORT
from support.running import connected, running_bus, short_directory, until_answered

SERVER = (sys.executable, str(SUPPORT / "clients/fake_app_server.py"))
DELTA = wire({"method": "item/agentMessage/delta", "params": {"threadId": "t1", "turnId": "u1", "delta": "x" * 100}})
NOTICE = wire({"method": "thread/started", "params": {"thread": {"id": "t1"}}})


def play(box: ProxyBox, recording: Path) -> int:
    """Be the client of a recording: say its lines, and see that every answer comes back byte for byte."""
    with box.started((*SERVER, str(recording)), env={**box.env, "PYTHONPATH": os.pathsep.join(sys.path)}) as process:
        assert process.stdin is not None
        for direction, data, _ in chunks_of(recording):
            if direction == "in":
                write_all(process, data)
            else:
                assert read_exactly(process, len(data)) == data
        process.stdin.close()
        return process.wait(PATIENCE_S)


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


async def finished(box: ProxyBox) -> None:
    """Wait until the observer has reported everything and is gone."""
    await asyncio.to_thread(eventually, lambda: not box.processes())


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
async def test_a_recording_passes_unchanged_and_the_bus_has_all_of_it(recording: Path) -> None:
    kind = "run" if recording.stem.startswith("turn_") else "tee"
    with short_directory() as base:
        box = ProxyBox(base, kind)
        async with running_bus(directory=base) as daemon:
            assert await asyncio.to_thread(play, box, recording) == 0
            await finished(box)
            observed = feed(AppServerStream(), chunks_of(recording))
            async with connected(daemon) as bus:
                assert await signals_of(bus) == expected_signals(observed)
            events = [str(receipt.event) for receipt in await receipts_of(daemon)]
            assert events.count("session.started") == events.count("session.ended")
            assert "receipt.gap_detected" not in events


async def test_without_a_broker_the_end_is_a_receipt_of_the_next_one() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        assert await asyncio.to_thread(box.run, CAT, NOTICE) == (0, NOTICE, b"")
        await finished(box)
        async with running_bus(directory=base) as daemon:
            (gap,) = await receipts_of(daemon)
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
                (_, ended) = await receipts_of(daemon)
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


async def test_a_broker_that_hangs_delays_nothing_and_gets_all_of_it_later() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        async with broker_process(base) as broker, lifebus.connect(runtime_dir=broker.runtime_dir, timeout=20) as bus:
            with box.started(CAT) as process:
                await say(process, DELTA)
                await until_answered(bus.status, lambda status: status.counters["signals_stored"])
                broker.signal(signal.SIGSTOP)
                for _ in range(20):
                    await say(process, DELTA * 100)
                broker.signal(signal.SIGCONT)
                await end(process)
            await finished(box)
            assert (await bus.status()).counters["signals_stored"] == 2_001


async def test_with_a_stopped_broker_the_observer_outlives_its_server_by_two_seconds_at_most() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        async with broker_process(base) as broker:
            with box.started(CAT) as process:
                observer = await asyncio.to_thread(box.observer)
                await say(process, NOTICE)
                await asyncio.to_thread(eventually, lambda: positions(observer, REPORTED) == {len(NOTICE)})
                broker.signal(signal.SIGSTOP)
                await say(process, DELTA)
                await end(process)
            began = time.monotonic()
            await finished(box)  # a zombie is no process: when it goes is up to its new parent
            lasted = time.monotonic() - began
            busy = await asyncio.to_thread(time_to_start)
            (call,) = box.final_calls()
            broker.signal(signal.SIGCONT)
    assert lasted < 2 + 5 * busy
    left = {"exit_code": 0, "missed_messages": 1, "missed_bytes": len(DELTA)}
    assert left.items() <= json.loads(call.stdin).items()


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
        box = ProxyBox(base)
        async with broker_process(base) as broker:
            with box.started(CAT) as process:
                await asyncio.to_thread(box.observer)
                await broker.kill()
                for _ in range(20):
                    await say(process, DELTA * 100)
                await end(process)
            await finished(box)
        async with running_bus(directory=base) as daemon:
            (gap,) = await receipts_of(daemon)
    assert gap.telemetry_summary["missed_messages"] == 2_000
    assert gap.telemetry_summary["missed_bytes"] == 2_000 * len(DELTA)


async def test_an_observer_that_is_killed_loses_nothing_that_it_has_not_read() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        async with running_bus(directory=base) as daemon, connected(daemon) as bus:
            with box.started(CAT) as process:
                observer = await asyncio.to_thread(box.observer)
                await say(process, NOTICE)
                await asyncio.to_thread(eventually, lambda: positions(observer, REPORTED) == {len(NOTICE)})
                observer.suspend()
                for _ in range(10):
                    await say(process, DELTA * 10)
                observer.kill()
                await until_answered(bus.status, lambda status: status.counters["signals_stored"] == 101)
                await end(process)
            await finished(box)
            receipts = await receipts_of(daemon)
    assert [str(one.event) for one in receipts] == ["session.started", "session.ended"]
    assert receipts[-1].telemetry_summary["session_end"] == "completed"


async def test_what_a_killed_observer_had_read_and_not_reported_is_told_in_the_session() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        async with broker_process(base) as broker:
            with box.started(CAT) as process:
                observer = await asyncio.to_thread(box.observer)
                await say(process, NOTICE)
                await asyncio.to_thread(eventually, lambda: positions(observer, REPORTED) == {len(NOTICE)})
                await broker.kill()
                await say(process, DELTA * 20)
                passed = len(NOTICE + DELTA * 20)
                await asyncio.to_thread(eventually, lambda: positions(observer, TAIL) == {passed})
                observer.kill()
                async with running_bus(directory=base) as daemon, connected(daemon) as bus:
                    await say(process, DELTA)
                    await until_answered(bus.status, lambda status: status.counters["signals_stored"])
                    await end(process)
                    await finished(box)
                    receipts = await receipts_of(daemon)
    gap = "receipt.gap_detected"  # one for each direction
    assert [str(one.event) for one in receipts] == ["session.started", gap, gap, "session.ended"]
    assert {one.harness_session_id for one in receipts} == {"t1"}
    for told in receipts[1:3]:
        assert told.telemetry_summary["missed_messages"] is None
        assert told.telemetry_summary["missed_bytes"] == len(DELTA * 20)
    assert {"session_end": "completed", "exit_code": 0}.items() <= receipts[3].telemetry_summary.items()


def positions(observer: psutil.Process, what: int) -> set[int]:
    """How far an observer is in the two directions, as the memory says that it shares with the proxy."""
    with Path(f"/proc/{observer.pid}/fd/3").open("rb") as file, mmap.mmap(file.fileno(), 4_096, prot=1) as head:
        return set(struct.unpack_from("=2q", head, 8 * what))


ENDS_ON_USR1 = """import os, signal
signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
while data := os.read(0, 65_536):
    os.write(1, data)
"""


async def test_a_server_that_ends_well_just_as_its_observer_is_killed_is_no_abandoned_one() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        async with running_bus(directory=base) as daemon:
            with box.started(python(ENDS_ON_USR1)) as process:
                observer = await asyncio.to_thread(box.observer)
                await say(process, NOTICE)
                await asyncio.to_thread(eventually, lambda: positions(observer, REPORTED) == {len(NOTICE)})
                (server,) = [one for one in psutil.Process(process.pid).children() if one != observer]
                process.send_signal(signal.SIGSTOP)
                observer.kill()
                server.send_signal(signal.SIGUSR1)
                both = (observer, server)  # they wait for the proxy to wait for them
                await asyncio.to_thread(eventually, lambda: {one.status() for one in both} == {psutil.STATUS_ZOMBIE})
                process.send_signal(signal.SIGCONT)
                assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0
            await finished(box)
            receipts = await receipts_of(daemon)
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
            (gap,) = await receipts_of(daemon)
    assert gap.event == "receipt.gap_detected"
    assert (gap.telemetry_summary["missed_messages"], gap.telemetry_summary["missed_bytes"]) == (None, 6 * len(NOTICE))


async def test_after_a_burst_that_nobody_could_read_the_next_message_is_seen_and_the_loss_is_no_more_than_passed() -> (
    None
):
    with short_directory() as base:
        box = ProxyBox(base)
        async with running_bus(directory=base) as daemon, connected(daemon) as bus:
            with box.started(CAT) as process:
                observer = await asyncio.to_thread(box.observer)
                await say(process, NOTICE)
                await until_answered(bus.status, lambda status: status.counters["signals_stored"])
                observer.suspend()
                burst = JUNK_LINE * (10 * 1_048_576 // len(JUNK_LINE))
                await say(process, burst)
                observer.resume()
                await asyncio.to_thread(eventually, lambda: is_caught_up(observer))
                await say(process, DELTA)
                await until_answered(bus.status, lambda status: status.counters["signals_stored"] == 2)
                await end(process)
            await finished(box)
            receipts = await receipts_of(daemon)
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


async def test_what_is_no_json_passes_and_is_counted() -> None:
    junk = b"\x00\xff no json \n" * 50_000
    with short_directory() as base:
        box = ProxyBox(base)
        async with running_bus(directory=base) as daemon:
            code, out, _ = await asyncio.to_thread(box.run, CAT, junk)
            await finished(box)
            assert (code, out) == (0, junk)
            async with connected(daemon) as bus:
                counters = (await bus.status()).counters
                assert (counters["signals_stored"], counters["lines_dropped"]) == (0, 2 * 50_000)


async def test_what_was_dropped_is_counted_in_the_end_of_the_session() -> None:
    with short_directory() as base:
        box = ProxyBox(base)
        async with running_bus(directory=base) as daemon:
            assert (await asyncio.to_thread(box.run, CAT, NOTICE + b"no json\n[]\n"))[0] == 0
            await finished(box)
            (_, ended) = await receipts_of(daemon)
    assert {"exit_code": 0, "junk": 4, "overlong": 0, "lost": 0}.items() <= ended.telemetry_summary.items()


def test_a_killed_proxy_leaves_a_program_that_sees_the_end_and_no_process() -> None:
    with proxy_box() as box:
        with box.started(python("import sys; print('up', flush=True); sys.stdin.read()")) as process:
            assert read_exactly(process, 3) == b"up\n"
            process.kill()
            process.wait(PATIENCE_S)
        eventually(lambda: not box.processes())
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
        eventually(lambda: not box.processes())


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
