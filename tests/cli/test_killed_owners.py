"""What `lifebus up`, `serve` and `invoke` have started ends with them, also where they are killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from cli.test_commands import envelope
from lifebus_transports.processes.guard import Guard
from support.clients.proxy_box import eventually
from support.command_line import Shell, broker_up
from support.fork_server import Process
from support.leftovers import MARK, marked
from support.patience import PATIENCE_S
from support.running import short_directory

DEAF = """import os, signal, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    time.sleep(600)  # until it is killed; it ends by itself should the test fail
os.read(0, 1)
Path(os.environ["LC_DEAF"], str(os.getpid())).touch()
time.sleep(600)  # the same
"""
"""A command that ignores the end of its stdin and SIGTERM, with a child of its own; it is asked once it is guarded."""
COMMAND = (sys.executable, "-I", "-S", "-c", DEAF)


@pytest.fixture
def shell() -> Iterator[Shell]:
    with short_directory() as directory:
        (directory / "deaf").mkdir()
        yield Shell(directory, LC_DEAF=str(directory / "deaf"))


def deaf(shell: Shell) -> list[int]:
    """The commands that have started."""
    return [int(path.name) for path in Path(shell.environment["LC_DEAF"]).iterdir()]


@contextmanager
def invoked(shell: Shell) -> Iterator[Process]:
    """Run `lifebus dev invoke` with the command, which has started."""
    dispatch = shell.directory / "dispatch"
    dispatch.write_bytes(envelope())
    with (
        dispatch.open() as stdin,
        shell.started("dev", "invoke", "--deadline", "5m", "--", *COMMAND, stdin=stdin.fileno()) as process,
    ):
        eventually(lambda: len(deaf(shell)) == 1)
        yield process


def test_a_killed_invoke_leaves_nothing(shell: Shell) -> None:
    shell.environment[MARK] = mark = uuid4().hex
    with invoked(shell) as process:
        process.kill()
        process.wait(PATIENCE_S)
        eventually(lambda: marked(mark) == [])


def test_a_killed_broker_and_a_killed_serve_leave_nothing(shell: Shell) -> None:
    shell.environment[MARK] = mark = uuid4().hex
    words = ", ".join(f"'''{word}'''" for word in COMMAND)
    settings = shell.directory / "config.toml"
    client = f'client_id = "deaf"\ncommand = [{words}]\nevents = ["frame.opening"]\nprotocol = "jsonl"\nworkers = 1\n'
    settings.write_text(f"[[clients]]\n{client}")
    shell.environment["LIFEBUS_CONFIG"] = str(settings)
    asked = ("--event", "frame.opening", "--protocol", "jsonl", "--workers", "1", "--", *COMMAND)
    with broker_up(shell) as up, shell.started("serve", *asked) as serve:
        assert serve.stderr is not None
        assert b"serving" in serve.stderr.readline()
        with shell.started("emit", "frame.opening", "--adapter", "codex", "--session", "s", "--frame", "f"):
            eventually(lambda: len(deaf(shell)) == 2)
        for process in (serve, up.process):
            process.kill()
            process.wait(PATIENCE_S)
        eventually(lambda: marked(mark) == [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_invoke_that_a_signal_ends_says_so_as_a_shell_does(shell: Shell, number: signal.Signals) -> None:
    shell.environment[MARK] = mark = uuid4().hex
    with invoked(shell) as process:
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 128 + number
        eventually(lambda: marked(mark) == [])  # what was killed may take a moment to be gone


def test_a_guardian_that_was_killed_is_replaced_by_one_that_knows_the_children_that_there_are() -> None:
    guard = Guard()
    with subprocess.Popen(
        (sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"), start_new_session=True
    ) as child:
        guard.add(child.pid)
        first = psutil.Process(guard.pid)
        first.kill()
        first.wait(PATIENCE_S)
        guard.add(999_999_999)  # no process has this number
        second = psutil.Process(guard.pid)
        assert second != first
        os.close(guard.pipe)  # what the end of this process would do
        assert child.wait(PATIENCE_S) == -signal.SIGTERM
        second.wait(PATIENCE_S)
