"""The hook without a good broker: always exit 0, nothing on stdout, and the call in the spool."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lifebus_adapters.shared.launcher import launcher_files, launcher_path
from lifebus_transports.framing.hook_frames import CallMessage
from support.clients.hook_box import (
    COMMAND,
    HOOK,
    PATIENT_COMMAND,
    HookBox,
    answering,
    assert_silent,
    receive_call,
    scripted_broker,
)
from support.patience import PATIENCE_S

WAITING = Path("/proc/locks")
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def test_a_broker_that_is_away_leaves_the_call_in_the_spool(box: HookBox) -> None:
    assert_silent(box.run(b'{"a":1}', "gemini", "AfterTool"))
    (call,) = box.spooled(1)
    assert (call.adapter_id, call.hook, call.stdin) == ("gemini", "AfterTool", b'{"a":1}')
    assert call.spooled_at_epoch_s is not None
    assert (box.spool.stat().st_mode & 0o777, (box.spool / "calls").stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_dead_socket_leaves_the_call_in_the_spool(box: HookBox) -> None:
    with scripted_broker(box, answering(b"0 0\n")):
        pass
    assert box.socket_path.is_socket()
    assert_silent(box.run())
    assert len(box.spooled(1)) == 1


def test_a_runtime_path_too_long_for_a_socket_leaves_the_call_in_the_spool(box: HookBox) -> None:
    box.extra = {"LIFEBUS_RUNTIME_DIR": "/" + "x" * 200}
    assert_silent(box.run())
    assert len(box.spooled(1)) == 1


def test_a_broker_that_accepts_and_hangs_is_given_up(box: HookBox) -> None:
    calls: list[CallMessage] = []
    over = threading.Event()

    def hang(connection: socket.socket) -> None:
        calls.append(receive_call(connection))
        over.wait(PATIENCE_S)

    with scripted_broker(box, hang):
        run = box.run()
        over.set()
    assert_silent(run)
    (call,) = box.spooled(1)
    assert {message.header.call_id for message in calls} <= {call.call_id}


def test_a_stopped_broker_is_given_up(box: HookBox) -> None:
    box.runtime.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:  # listens, but nobody ever accepts
        listener.bind(str(box.socket_path))
        listener.listen(8)
        assert_silent(box.run(b"x" * 200_000))
    assert [len(call.stdin) for call in box.spooled(1)] == [200_000]


def test_a_broker_that_hangs_up_leaves_the_call_in_the_spool(box: HookBox) -> None:
    with scripted_broker(box, lambda _: None):
        assert_silent(box.run(b"x" * 200_000))
    assert len(box.spooled(1)) == 1


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"\n", b"2", b"2 0", b"2 5\nabc", b"2 1\nabc", b"256 0\n", b"-2 0\n", b"2 -1\n", b"2  0\n", b"2 0 0\n"),
        *(b"busy\n", b"HTTP/1.1 200 OK\r\n\r\n", b'{"exit":2}', b"\xff\xfe 0\n", b"2 0\r\nx", b"2" * 5000 + b" 0\n"),
    ],
)
def test_an_answer_that_is_not_whole_counts_for_nothing(box: HookBox, answer: bytes) -> None:
    with scripted_broker(box, answering(answer)):
        assert_silent(box.run())
    assert len(box.spooled(1)) == 1


def test_an_endless_answer_is_cut_off(box: HookBox) -> None:
    def flood(connection: socket.socket) -> None:
        receive_call(connection)
        while True:
            connection.sendall(b"2 9999999999\n" + b"x" * 65_536)

    with scripted_broker(box, flood):
        assert_silent(box.run())
    assert len(box.spooled(1)) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_broker_of_another_user_is_not_believed(box: HookBox) -> None:
    box.command = PATIENT_COMMAND
    box.runtime.mkdir(mode=0o700)
    stranger = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.setuid(65534); s.listen()\n"
        "print(flush=True); c, _ = s.accept(); c.recv(65536); c.sendall(b'2 4\\nevil'); c.close()"
    )
    command = [sys.executable, "-c", stranger, str(box.socket_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        broker.stdout.readline()
        run = box.run()
        broker.wait(PATIENCE_S)
    assert_silent(run)
    assert len(box.spooled(1)) == 1


def assert_spooled_of_an_open_stdin(box: HookBox, data: bytes) -> None:
    """A hook whose harness does not close its stdin ends all the same, spools what came, and leaves it as it was."""
    reading, writing = os.pipe()
    os.write(writing, data)
    with box.start("codex", "Stop", stdin=reading) as hook:
        assert hook.wait(PATIENCE_S) == 0
    assert os.get_blocking(reading)
    for end in (reading, writing):
        os.close(end)
    assert [call.stdin for call in box.spooled(1)] == [data]


def test_a_harness_that_never_closes_stdin_is_not_waited_for(box: HookBox) -> None:
    assert_spooled_of_an_open_stdin(box, b'{"whole":true}')


@pytest.mark.parametrize("number", ENDING)
def test_a_harness_that_ends_the_hook_gets_exit_0_and_the_call_is_kept(box: HookBox, number: signal.Signals) -> None:
    def kill_and_hang(connection: socket.socket) -> None:
        receive_call(connection)
        hook.send_signal(number)
        connection.recv(1)

    with scripted_broker(box, kill_and_hang), box.start("codex", "Stop") as hook:
        assert hook.stdin is not None
        hook.stdin.close()
        assert hook.wait(PATIENCE_S) == 0
    assert len(box.spooled(1)) == 1


@pytest.mark.parametrize("number", ENDING)
def test_a_harness_that_ends_the_hook_before_it_reads_loses_nothing(box: HookBox, number: signal.Signals) -> None:
    calls: list[CallMessage] = []
    box.command = PATIENT_COMMAND  # the other one takes what came in its time
    with scripted_broker(box, answering(b"0 0\n", calls)), box.start("claude", "UserPromptSubmit") as hook:
        assert hook.stdin is not None
        hook.stdin.write(b'{"prompt":')
        hook.stdin.flush()
        wait_until_caught(hook, signal.SIGTERM)
        hook.send_signal(number)
        hook.stdin.write(b'"go"}')
        hook.stdin.close()
        assert hook.wait(PATIENCE_S) == 0
    assert [message.call.stdin for message in calls] == [b'{"prompt":"go"}']


@pytest.mark.parametrize("number", ENDING)
def test_a_harness_that_ends_the_hook_before_python_runs_loses_nothing(box: HookBox, number: signal.Signals) -> None:
    """Claude Code ends every other hook of a prompt with SIGTERM as soon as one of them blocks it."""
    python = box.base / "python"
    python.write_text(f'#!/bin/sh\nkill -{int(number)} $$\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o700)
    box.command = (installed_launcher(box.base / "data", python),)
    assert_silent(box.run(b'{"prompt":"go"}', "claude", "UserPromptSubmit"))
    assert [call.stdin for call in box.spooled(1)] == [b'{"prompt":"go"}']


def test_several_signals_at_once_do_not_keep_the_call_from_the_spool(box: HookBox) -> None:
    def kill_and_hang(connection: socket.socket) -> None:
        receive_call(connection)
        for number in (signal.SIGSTOP, *ENDING, signal.SIGCONT):
            hook.send_signal(number)
        connection.recv(1)

    with scripted_broker(box, kill_and_hang), box.start("claude", "UserPromptSubmit") as hook:
        stdout, stderr = hook.communicate(b"{}", timeout=PATIENCE_S)
    assert (hook.returncode, stdout, stderr) == (0, b"", b"")
    assert len(box.spooled(1)) == 1


def wait_until_caught(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """Wait until the process has a handler of its own for the signal."""
    status = Path(f"/proc/{process.pid}/status")
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt:"))
        if int(caught.split()[1], 16) >> (number - 1) & 1:
            return
    raise AssertionError("the hook took no care of the signal")


def installed_launcher(data: Path, python: Path) -> str:
    """Write the launcher as an installation does, with this interpreter, and return its path."""
    files = launcher_files(str(data), python=str(python), hook=HOOK.read_text(), wrapper="")
    data.mkdir()
    for file in files:
        Path(file.path).write_text(file.contents)
        Path(file.path).chmod(file.mode)
    return launcher_path(str(data))


def test_a_blocked_alarm_does_not_make_the_hook_wait_for_ever(box: HookBox) -> None:
    blocking = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); "
    blocking += "os.execv(sys.argv[1], sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-c", blocking, *COMMAND, "codex"], stdin=subprocess.PIPE, env=box.env
    ) as hook:
        assert hook.wait(PATIENCE_S) == 0
    assert len(box.spooled(1)) == 1


LATE = """
import functools, itertools, sys, types
hook = types.ModuleType("hook")
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), hook.__dict__)
hook._EXCHANGE_S = 0.01
hook._ask = functools.partial(functools.reduce, max, itertools.chain(itertools.repeat(b"", 1_000_000), [1]))
hook._end(hook.main(sys.argv[2:]))
"""
"""The hook, whose exchange fails behind its time: a signal is heard where Python code runs next, and there is none."""


def test_a_time_that_is_over_between_exchange_and_spool_loses_no_call(box: HookBox) -> None:
    box.command = (sys.executable, "-I", "-S", "-c", LATE, str(HOOK))
    assert_silent(box.run())
    assert len(box.spooled(1)) == 1


SLOW = """
import sys, types
hook = types.ModuleType("hook")
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), hook.__dict__)
arm = hook._arm
hook._arm = lambda seconds, handler: handler() if handler is hook._stop_waiting else arm(seconds, handler)
hook._end(hook.main(sys.argv[2:]))
"""
"""The hook, on a machine that does not let it read stdin before its time is over."""


@pytest.mark.parametrize("size", [0, 9, 1_048_576])
def test_what_is_there_when_the_time_is_over_is_in_the_spool_though_nothing_was_read(box: HookBox, size: int) -> None:
    box.command = (sys.executable, "-I", "-S", "-c", SLOW, str(HOOK))
    assert_silent(box.run(b"x" * size))
    assert [call.stdin for call in box.spooled(1)] == [b"x" * size]


BETWEEN = """
import signal, sys, types
hook = types.ModuleType("hook")
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), hook.__dict__)
def read(descriptor, size, read=hook.posix.read):
    data = read(descriptor, size)
    signal.raise_signal(signal.SIGALRM)
    return data
hook.posix.read = read
hook._end(hook.main(sys.argv[2:]))
"""
"""The hook, whose time is over just when something was read and nobody has got it yet."""


def test_what_is_read_when_the_time_is_over_is_not_lost(box: HookBox) -> None:
    box.command = (sys.executable, "-I", "-S", "-c", BETWEEN, str(HOOK))
    payload = os.urandom(200_000)
    assert_silent(box.run(payload))
    assert [call.stdin for call in box.spooled(1)] == [payload]


def test_a_stdin_without_an_end_is_not_waited_for_when_the_time_is_over(box: HookBox) -> None:
    box.command = (sys.executable, "-I", "-S", "-c", SLOW, str(HOOK))
    assert_spooled_of_an_open_stdin(box, b"half")


@pytest.mark.parametrize("source", ["</dev/zero", "<&-"])
def test_a_stdin_that_never_ends_or_is_none_delays_nothing_when_the_time_is_over(box: HookBox, source: str) -> None:
    command = (sys.executable, "-I", "-S", "-c", SLOW, str(HOOK))
    words = ["sh", "-c", f'exec "$@" codex Stop {source}', "sh", *command]
    assert subprocess.run(words, env=box.env, check=False, timeout=PATIENCE_S).returncode == 0
    assert [call.stdin for call in box.spooled(1)] == [b""]


@pytest.mark.parametrize("arguments", [(), ("a", "b", "c", "d"), ("x" * 129,), ("codex", "é")])
def test_wrong_arguments_exit_0_with_a_line_on_stderr(box: HookBox, arguments: tuple[str, ...]) -> None:
    with box.start(*arguments) as hook:
        stdout, stderr = hook.communicate(b"{}", timeout=PATIENCE_S)
    assert (hook.returncode, stdout, stderr) == (0, b"", b"usage: hook.py ADAPTER [HOOK [CALL_ID]]\n")
    assert not box.spool.exists()
