"""The command line as its users run it: processes with a terminal, a pipe or nothing behind their streams."""

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import structlog

from lifebus.cli import run
from support.clients.patient_hook import patient_hook
from support.fork_server import Forked, Process, fork_server
from support.patience import PATIENCE_S

COMMAND = [sys.executable, "-m", "lifebus"]


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Every line of stdout as a JSON document."""
        return [json.loads(line) for line in self.out.splitlines()]


class Shell:
    """Runs commands with directories of its own."""

    def __init__(self, directory: Path, **variables: str) -> None:
        self.directory = directory
        self.environment = {
            "PATH": os.defpath,
            "HOME": str(directory),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "PYTHONWARNINGS": "error",
            "LIFEBUS_RUNTIME_DIR": str(directory / "run"),
            "LIFEBUS_STATE_DIR": str(directory / "state"),
            **variables,
        }

    def run(self, *arguments: str, stdin: bytes = b"", smoke: bool = False, **variables: str) -> Ran:
        """Run a command to its end; its streams are pipes."""
        environment = {**self.environment, **variables}
        with self.started(*arguments, smoke=smoke, stdin=subprocess.PIPE, environment=environment) as process:
            out, err = process.communicate(stdin, PATIENCE_S)
        return Ran(process.wait(), out.decode(), err.decode())

    def call(self, *arguments: str, stdin: bytes = b"", **variables: str) -> Ran:
        """Run a command in this process, which is as good for what does not touch signals, and ten times faster."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
        with (
            mock.patch.dict(os.environ, {**self.environment, **variables}, clear=True),
            mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8")),
            mock.patch.object(sys, "stdout", out),
            mock.patch.object(sys, "stderr", err),
        ):
            code = run(arguments)
            out.flush()
            err.flush()
        structlog.reset_defaults()
        return Ran(code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode())

    def until_acknowledged(self, name: str) -> None:
        """Wait until a consumer has acknowledged what it got: what is not yet would come again after a restart."""
        deadline = time.monotonic() + PATIENCE_S
        while self.call("clients", "lag", name, "--json").json[0]["open"]:
            assert time.monotonic() < deadline, f"{name} acknowledges nothing"

    def hook(self, harness: str, payload: Mapping[str, Any]) -> None:
        """Call the launcher that `hooks install` has made, as the harness does; it waits for its answer as tests do.

        A call that went to the spool, as on a busy machine, would be recorded later, and behind those that follow it.
        """
        launcher = str(self.directory / ".local/share/lifebus/lifebus-hook")
        body = json.dumps(payload).encode()
        with patient_hook(self.directory):
            subprocess.run([launcher, harness], input=body, env=self.environment, check=True, capture_output=True)

    @contextmanager
    def started(
        self,
        *arguments: str,
        smoke: bool = False,
        environment: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
    ) -> Iterator[Process]:
        """A command while it runs, gone at the end of the block; `smoke` starts a new interpreter."""
        start = spawn if smoke else fork
        process = start(arguments, environment or self.environment, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=PATIENCE_S)

    def on_terminal(self, *arguments: str, types: bytes = b"", variables: Mapping[str, str] | None = None) -> Ran:
        """Run a command whose streams are all one terminal of 80 columns; what it shows is in `out`."""
        ours, theirs = pty.openpty()
        os.write(ours, types)
        environment = {**self.environment, "COLUMNS": "80", "TERM": "xterm-256color", **(variables or {})}
        process = fork(arguments, environment, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        shown = b"".join(_read_terminal(ours))
        os.close(ours)
        return Ran(process.wait(PATIENCE_S), shown.decode(), "")


def _read_terminal(descriptor: int) -> Iterator[bytes]:
    while select.select([descriptor], [], [], PATIENCE_S)[0]:
        try:
            chunk = os.read(descriptor, 65_536)
        except OSError:  # the other side is closed
            return
        if not chunk:
            return
        yield chunk


class Up:
    """A broker started by `lifebus up`.  `log` holds its lines on stderr so far, `out` what it wrote to stdout."""

    def __init__(self, process: Process, stdout: int, stderr: int) -> None:
        self.process = process
        self.log: list[str] = []
        self.out = b""
        self._ready = threading.Event()
        self._came = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read_log, args=(stderr,)),
            threading.Thread(target=self._read_out, args=(stdout,)),
        ]
        for reader in self._readers:
            reader.start()

    def wait_ready(self) -> None:
        if not self._ready.wait(PATIENCE_S) or self.process.poll() is not None:
            raise RuntimeError("the broker did not start:\n" + "\n".join(self.log))

    def wait_for(self, event: str) -> None:
        """Wait until its log has an event."""
        with self._came:
            if not self._came.wait_for(lambda: any(f'"event":"{event}"' in line for line in self.log), PATIENCE_S):
                raise RuntimeError(f"the broker never logged {event}:\n" + "\n".join(self.log))

    def wait(self) -> int:
        """Return its exit code once it has ended and everything that it wrote has been read."""
        code = self.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return code

    def stop(self) -> int:
        """Ask it to stop and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def _read_log(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as lines:
            for line in lines:
                with self._came:
                    self.log.append(line.decode().rstrip("\n"))
                    self._came.notify_all()
                if '"event":"ready"' in self.log[-1]:
                    self._ready.set()
        self._ready.set()

    def _read_out(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as out:
            self.out = out.read()


@contextmanager
def broker_up(shell: Shell, *arguments: str, smoke: bool = False) -> Iterator[Up]:
    """`lifebus up` with all its sockets open, stopped at the end of the block; `smoke` starts a new interpreter."""
    out, writing_out = os.pipe()
    err, writing_err = os.pipe()
    try:
        start = spawn if smoke else fork
        process = start(["up", *arguments], shell.environment, stdout=writing_out, stderr=writing_err)
    finally:
        os.close(writing_out)
        os.close(writing_err)
    up = Up(process, out, err)
    try:
        up.wait_ready()
        yield up
    finally:
        if process.poll() is None:
            up.stop()
        up.wait()


def spawn(
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> "subprocess.Popen[bytes]":
    """Start `lifebus` with these words in a new interpreter, as a user does."""
    return subprocess.Popen([*COMMAND, *words], env=environment, stdin=stdin, stdout=stdout, stderr=stderr)


def fork(
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> Forked:
    """Start `lifebus` with these words in a process whose imports are done."""
    entry = "support.fork_server:command_line"
    return fork_server().start(entry, words, environment=environment, stdin=stdin, stdout=stdout, stderr=stderr)
