"""The launcher wrapper: the harness notices nothing of it, and the broker records its start and its end."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lifebus
from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.assets import InstallRequest, OwnedFile
from lifebus_adapters.shared.launcher import launcher_files, launcher_path
from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_contract import IntegrationMode
from support.clients.hook_box import spooled_in
from support.clients.proxy_box import eventually
from support.patience import PATIENCE_S
from support.running import short_directory
from support.terminals import interrupted, listener


class Place:
    """A data directory with launcher and wrapper, and a program `codex` that a test writes."""

    def __init__(self, base: Path) -> None:
        self.base = base
        data = base / "data"
        sources = Path(lifebus.__file__).parent
        hook, wrapper = (sources.joinpath(name).read_text() for name in ("hook.py", "wrapper.py"))
        request = InstallRequest(
            mode=IntegrationMode.LAUNCHER_WRAPPER,
            scope="user",
            surroundings=Surroundings(home=str(base), environ={}),
            launcher=launcher_path(str(data)),
            python=sys.executable,
        )
        (script,) = ADAPTERS["codex"].assets.make(request)
        for item in (*launcher_files(str(data), python=sys.executable, hook=hook, wrapper=wrapper), script):
            assert isinstance(item, OwnedFile)
            path = Path(item.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(item.contents)
            path.chmod(item.mode)
        self.script = script.path
        self.data = data
        self.programs = base / "programs"
        self.programs.mkdir()

    def program(self, *lines: str) -> None:
        path = self.programs / "codex"
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        path.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.programs}:{os.defpath}",
            "HOME": str(self.base),
            "LIFEBUS_RUNTIME_DIR": str(self.base / "run"),
            "LIFEBUS_STATE_DIR": str(self.base / "state"),
        }

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[bytes]":
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen([self.script, *arguments], **{"env": self.environment, **pipes, **options})

    def run(self, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        with self.start(*arguments) as process:
            out, err = process.communicate(stdin, timeout=PATIENCE_S)
        return process.returncode, out, err

    def spooled(self) -> list[bytes]:
        """Return the payload of each spooled call."""
        return [record.stdin for record in spooled_in(self.base / "state" / "spool")[0]]

    def calls(self) -> list[dict[str, Any]]:
        """Wait for the start and the end, and return both: on a busy machine the end may be in the spool first."""
        until = time.monotonic() + PATIENCE_S
        while len(self.spooled()) < 2 and time.monotonic() < until:
            time.sleep(0)
        found = [json.loads(stdin) for stdin in self.spooled()]
        return sorted(found, key=lambda call: "exit_code" in call)


@pytest.fixture
def place() -> Iterator[Place]:
    with short_directory() as base:
        yield Place(base)


def test_arguments_streams_and_exit_code_are_the_harnesss(place: Place) -> None:
    place.program('printf "%s|" "$@"', "cat", "echo oops >&2", "exit 3")
    assert place.run("a b", "", "$x", stdin=b"in") == (3, b"a b||$x|in", b"oops\n")
    start, end = place.calls()
    assert (start["hook_event_name"], end["hook_event_name"]) == ("wrapper_start", "wrapper_end")
    assert start["run_id"] == end["run_id"]
    assert end["exit_code"] == 3


def test_without_the_launcher_the_harness_runs_alone(place: Place) -> None:
    place.program("exit 4")
    (place.data / "lifebus-hook").unlink()
    assert place.run()[0] == 4
    assert not (place.base / "state").exists()


def test_without_any_file_of_lifebus_but_the_script_the_harness_runs(place: Place) -> None:
    place.program("exit 5")
    for name in ("lifebus-hook", "hook.py", "wrapper.py"):
        (place.data / name).unlink()
    assert place.run()[0] == 5


def test_a_harness_that_is_not_there_is_said_as_a_shell_would(place: Place) -> None:
    code, _, err = place.run()
    assert (code, err) == (127, b"lifebus-run-codex: codex: No such file or directory\n")
    assert place.calls()[-1]["exit_code"] == 127


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_the_wrapper_reaches_the_harness(place: Place, number: signal.Signals) -> None:
    place.program(f"exec {shlex.join(listener(number))}")
    with place.start() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (7, b"got\n")


def test_a_signal_waits_until_the_wrapper_takes_it_and_for_nobody_else(place: Place) -> None:
    """A handler would lose the one that comes between Python's look for signals and the system call that waits."""
    if not Path("/proc/self/status").exists():
        pytest.skip("only Linux shows which signals a process handles and blocks")
    launched = place.base / "launched"
    place.program("grep SigCgt /proc/$PPID/status | cut -f 2", "grep SigBlk /proc/$$/status | cut -f 2")
    (place.data / "lifebus-hook").write_text(f"#!/bin/sh\ngrep SigBlk /proc/$$/status | cut -f 2 >>{launched}\n")
    with place.start() as process:
        out, _ = process.communicate(timeout=PATIENCE_S)
    handled, blocked = (int(mask, 16) for mask in out.split())
    passed_on = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
    assert [number for number in passed_on if handled >> number - 1 & 1] == []
    assert blocked == 0
    # A launcher that takes longer than the wrapper waits for it goes on without it.
    eventually(lambda: [int(mask, 16) for mask in launched.read_text().split()] == [0, 0])


def test_what_is_reported_is_there_before_its_launcher_starts(place: Place) -> None:
    """The hook waits for its stdin for a moment only, and a busy machine may stop the wrapper for longer."""
    place.program("exit 3")
    told = place.base / "told"
    lines = ("#!/bin/sh", "kill -STOP $PPID", f"cat >>{told}", "kill -CONT $PPID", "")
    (place.data / "lifebus-hook").write_text("\n".join(lines))
    assert place.run()[0] == 3
    assert told.read_text().count("}") == 2


@pytest.mark.parametrize("name", ["HUP", "INT"])
def test_a_signal_that_is_ignored_as_under_nohup_stays_so_for_the_harness(place: Place, name: str) -> None:
    place.program(f"kill -{name} $PPID", "echo ready", f"kill -{name} $$", "exit 7")
    words = ["sh", "-c", f"trap '' {name}; exec \"$0\"", place.script]
    done = subprocess.run(words, env=place.environment, capture_output=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (7, b"ready\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_harness_that_a_signal_ends_ends_the_wrapper_with_it(place: Place, number: signal.Signals) -> None:
    place.program(f"kill -{number.value} $$", "sleep 60")
    assert place.run()[0] == -number
    assert place.calls()[-1]["exit_code"] == -number


def test_the_harness_has_the_signals_as_they_are_by_default(place: Place) -> None:
    place.program("grep SigIgn /proc/$$/status")
    if not Path("/proc/self/status").exists():
        pytest.skip("only Linux shows what a process ignores")
    below_the_c_librarys_own = 0x7FFF_FFFF
    assert int(place.run()[1].split()[1], 16) & below_the_c_librarys_own == 0


def test_on_a_terminal_an_interrupt_comes_once(place: Place) -> None:
    place.program(f"exec {shlex.join(listener(signal.SIGINT))}")
    code, shown = interrupted((place.script,), place.environment)
    assert (code, shown.count(b"got")) == (7, 1)
