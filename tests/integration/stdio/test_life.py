"""`lifebus dev stdio` through its life: brokers come and go, readers stop, inputs end, whatever its streams are."""

import fcntl
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import termios
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import psutil
import pytest
from anyio.abc import Process

from support.command_line import Shell
from support.integration.following import emit as emit_many
from support.integration.following import recorded, until
from support.integration.stdio_peers import command, emission, emit, environment, raw_peer, start_stdio, stdio_peer
from support.patience import PATIENCE, PATIENCE_S
from support.running import connected, running_bus, short_directory, until_answered

PING = b'{"id":1,"verb":"ping"}\n'
PONG = b'{"id":1,"ok":{}}\n'


async def test_without_a_broker_requests_are_refused_and_with_one_they_work() -> None:
    with short_directory() as directory:
        async with stdio_peer(directory / "run") as peer:
            refused = [await peer.ask(verb) for verb in ("ping", "subscribe")]
            async with running_bus(directory=directory):
                with anyio.fail_after(PATIENCE_S):
                    while "ok" not in (answer := await peer.ask("ping")):
                        assert answer["refused"]["code"] == "no_broker"

    assert [answer["refused"]["code"] for answer in refused] == ["no_broker"] * 2
    assert refused[0]["refused"]["retry_class"] == "safe_retry"


async def test_subscriptions_registrations_and_keyed_emissions_survive_a_restart_of_the_broker() -> None:
    with short_directory() as directory:
        async with raw_peer(directory / "run", "--timeout", PATIENCE) as peer:
            async with running_bus(directory=directory):
                await until_answered(partial(peer.ask, "ping"), lambda answer: "ok" in answer)
                for verb, body in (
                    ("subscribe", {}),
                    ("subscribe", {"session": ["codex", "s1"]}),
                    ("serve", {"client_id": "editor", "events": ["frame.opening"]}),
                    ("emit", emit(emission())),
                ):
                    assert "ok" in await peer.ask(verb, body)
            await peer.send({"id": "meanwhile", "verb": "emit", "body": emit(emission())})
            async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
                answer = await peer.answer("meanwhile")
                await emit_many(bus, "s1", "s2")
                everything, session = await peer.items(1, 4), await peer.items(2, 3)
                with anyio.fail_after(PATIENCE_S):
                    clients = await until_answered(bus.clients, bool)

    assert answer["ok"]["results"][0]["positions"] == [2]
    assert [item["cursor"].partition(":")[2] for item in everything] == ["1", "2", "3", "4"]
    assert [item["receipt"]["sequence"] for item in session] == [1, 2, 3]
    assert clients[0].client_id == "editor"


async def test_requests_to_a_broker_that_is_gone_are_refused_after_their_timeout() -> None:
    async with running_bus() as daemon, raw_peer(daemon, "--timeout", "300ms") as peer:
        await until_answered(partial(peer.ask, "ping"), lambda answer: "ok" in answer)
        daemon.requests.close()
        refused = [await peer.ask("ping"), await peer.ask("emit", emit(emission())), await peer.ask("subscribe")]

    assert {answer["refused"]["failure_class"] for answer in refused} == {"timeout"}


async def test_a_broker_with_another_history_is_a_gap() -> None:
    with short_directory() as directory:
        async with raw_peer(directory / "run", "--timeout", PATIENCE) as peer:
            async with running_bus(directory=directory, backend="memory") as daemon, connected(daemon) as bus:
                opened = await until_answered(partial(peer.ask, "subscribe"), lambda answer: "ok" in answer)
                number = opened["ok"]["subscription"]
                await emit_many(bus, "s1")
                before = await peer.items(number, 1)
            async with running_bus(directory=directory, backend="memory") as daemon, connected(daemon) as bus:
                await emit_many(bus, "s2")
                gap, after = await peer.items(number, 2)

    assert before[0]["receipt"]["harness_session_id"] == "s1"
    assert (gap["gap"]["reason"], gap["gap"]["after"]) == ("epoch_changed", 1)
    assert after["receipt"]["harness_session_id"] == "s2"


async def test_subscriptions_and_registrations_leave_nothing_behind() -> None:
    async with running_bus() as daemon, stdio_peer(daemon) as peer:
        process = psutil.Process(peer.process.pid)
        before = 0, 0
        for number in range(21):
            opened = await peer.ask("subscribe", {"since": "start"})
            await peer.ask("serve", {"client_id": "editor", "events": ["session.started"]})
            await peer.ask("unsubscribe", {"subscription": opened["ok"]["subscription"]})
            await peer.ask("leave")
            before = before if number else (process.num_fds(), process.num_threads())
        # ZeroMQ closes in a thread, which may not have been done with the first either.
        await until(lambda: process.num_fds() <= before[0] and process.num_threads() <= before[1])


async def test_a_megabyte_of_noise_is_refused_line_by_line() -> None:
    noise = random.Random(4).randbytes(1_000_000)
    lines = [line for line in noise.split(b"\n") if line.strip()]
    async with running_bus() as daemon, stdio_peer(daemon) as peer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.write, noise + b"\n")
            codes = {(await peer.answer(None))["refused"]["code"] for _ in lines}
        assert await peer.ask("ping") == {"id": 0, "ok": {}}
    assert codes == {"malformed"}


async def test_a_reader_that_stops_costs_no_memory_and_misses_nothing() -> None:
    many = 7_000
    async with running_bus() as daemon, connected(daemon) as bus, raw_peer(daemon) as peer:
        await peer.ask("subscribe")
        await peer.ask("subscribe", {"session": ["codex", "s1"]})
        before = peak_memory(peer.process.pid)
        for _ in range(many // 1_000):
            await emit_many(bus, *["s1"] * 1_000)
        sequences: dict[int, list[int]] = {1: [], 2: []}
        for _ in range(2 * many):
            item = json.loads(await peer.line())
            sequences[item["subscription"]].append(item["receipt"]["sequence"])
        grown = peak_memory(peer.process.pid) - before

    assert sequences == {1: list(range(1, many + 1)), 2: list(range(1, many + 1))}
    assert grown < 40 * 1_048_576  # of the library's two queues; not of what was emitted


def peak_memory(pid: int) -> int:
    """The most memory that a process ever had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024


async def test_requests_are_not_read_while_their_answers_are_not() -> None:
    async with running_bus() as daemon, stdio_peer(daemon) as peer:
        sent, stalled = 0, False
        while not stalled:
            with anyio.move_on_after(1) as patience:
                sent += 1_000
                await peer.write(PING * 1_000)
            stalled = patience.cancelled_caught
        lines = [await peer.line() for _ in range(sent)]

    assert sent < 60_000
    assert set(lines) == {PONG.rstrip(b"\n")}


async def test_all_that_was_taken_is_answered_after_the_end_of_the_input() -> None:
    bodies = [emit(emission()) for _ in range(200)]
    questions = [json.dumps({"id": number, "verb": "emit", "body": body}) for number, body in enumerate(bodies)]
    lines = "\n".join(questions).encode()  # the last one has no newline
    async with running_bus() as daemon:
        with anyio.fail_after(PATIENCE_S):
            done = await anyio.run_process(command(), input=lines, env=environment(daemon.settings.runtime_dir))
        stored = await recorded(daemon)

    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == list(range(200))
    assert all("ok" in answer for answer in answers)
    assert len(stored) == 200
    assert [receipt.event_id for receipt in stored] == [body["emissions"][0]["request"]["event_id"] for body in bodies]
    assert done.stderr == b""


async def test_files_are_read_and_written_as_pipes_are() -> None:
    with short_directory() as directory:
        asked, answered = directory / "asked", directory / "answered"
        asked.write_bytes(PING * 1_000)
        async with running_bus() as daemon:
            with asked.open("rb") as stdin, answered.open("wb") as stdout, anyio.fail_after(PATIENCE_S):
                ended = await finished(
                    await start_stdio(daemon.settings.runtime_dir, stdin=stdin.fileno(), stdout=stdout.fileno())
                )
        assert (answered.read_bytes(), ended) == (PONG * 1_000, (0, b"", b""))


async def finished(process: Process) -> tuple[int, bytes, bytes]:
    """Wait for its end; return exit code, stdout and stderr."""
    out, err = [
        b"" if stream is None else b"".join([chunk async for chunk in stream])
        for stream in (process.stdout, process.stderr)
    ]
    code = await process.wait()
    await process.aclose()
    return code, out, err


@pytest.mark.parametrize("stdout", [subprocess.DEVNULL, subprocess.PIPE])
async def test_an_empty_input_is_the_end(stdout: int) -> None:
    async with running_bus() as daemon:
        with anyio.fail_after(PATIENCE_S):
            started = await start_stdio(daemon.settings.runtime_dir, stdin=subprocess.DEVNULL, stdout=stdout)
            assert await finished(started) == (0, b"", b"")


async def test_one_socket_may_be_both_streams() -> None:
    ours, theirs = socket.socketpair()
    async with running_bus() as daemon:
        with theirs:
            runtime_dir = daemon.settings.runtime_dir
            process = await start_stdio(runtime_dir, stdin=theirs.fileno(), stdout=theirs.fileno())
        with ours, anyio.fail_after(PATIENCE_S):
            await anyio.to_thread.run_sync(ours.sendall, PING * 2_000)
            ours.shutdown(socket.SHUT_WR)
            answers = await anyio.to_thread.run_sync(everything, ours)
            code = await process.wait()
        await process.aclose()
    assert (code, answers) == (0, PONG * 2_000)


def everything(source: socket.socket) -> bytes:
    data = bytearray()
    while chunk := source.recv(65_536):
        data += chunk
    return bytes(data)


async def test_a_person_may_try_it_on_a_terminal() -> None:
    async with running_bus() as daemon:
        shell = Shell(daemon.settings.runtime_dir.parent)
        ran = await anyio.to_thread.run_sync(partial(shell.on_terminal, "stdio", types=PING + b"\x04"))
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == PONG.decode().strip()


async def test_sigterm_finishes_what_was_taken_and_ends_with_0() -> None:
    async with running_bus() as daemon, raw_peer(daemon) as peer:
        await peer.ask("subscribe")
        await peer.ask("serve", {"client_id": "editor", "events": ["session.started"]})
        peer.process.send_signal(signal.SIGTERM)
        assert await peer.rest() == []
        assert (await peer.ended(), await peer.errors()) == (0, "")


async def test_sigterm_ends_it_even_if_nobody_reads() -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4_096)
    async with running_bus() as daemon:
        process = await start_stdio(daemon.settings.runtime_dir, stdout=writing)
        os.close(writing)
        assert process.stdin is not None
        await process.stdin.send(b'{"id":1,"verb":"status"}\n' * 20)  # their answers are longer than the pipe
        await until(lambda: unread(reading))
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(PATIENCE_S):
            assert await process.wait() == 0
        await process.aclose()
    os.close(reading)


def unread(pipe: int) -> int:
    """How many bytes wait in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)


@pytest.mark.parametrize("more", [b"", PING], ids=["while nothing is said", "while it answers"])
async def test_a_reader_that_goes_away_ends_it_quietly(more: bytes) -> None:
    reading, writing = os.pipe()
    async with running_bus() as daemon:
        process = await start_stdio(daemon.settings.runtime_dir, stdout=writing)
        os.close(writing)
        assert process.stdin is not None
        assert process.stderr is not None
        await process.stdin.send(PING)
        assert await anyio.to_thread.run_sync(os.read, reading, 100) == PONG
        os.close(reading)
        with suppress(OSError):  # it may have ended already
            await process.stdin.send(more)
        with anyio.fail_after(PATIENCE_S):
            assert (await process.wait(), [line async for line in process.stderr]) == (141, [])
        await process.aclose()


async def test_ctrl_c_ends_it_with_130_and_without_a_traceback() -> None:
    async with running_bus() as daemon, raw_peer(daemon) as peer:
        await peer.ask("subscribe")
        peer.process.send_signal(signal.SIGINT)
        assert (await peer.ended(), await peer.errors()) == (130, "")


async def test_what_cannot_be_read_is_an_error_in_one_sentence_and_a_next_step() -> None:
    with short_directory() as directory:
        stdin = os.open(directory / "file", os.O_WRONLY | os.O_CREAT)
        try:
            ended = await finished(await start_stdio(directory, stdin=stdin))
        finally:
            os.close(stdin)
    assert ended == (74, b"", b"lifebus: Bad file descriptor\n  put that right, then try again\n")
