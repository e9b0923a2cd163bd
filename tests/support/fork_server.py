"""Brokers and commands in a tenth of a start: forked from a process that has imported everything, real as any other.

A new interpreter spends most of its start on imports, and the suite starts some hundred brokers and commands.  One
server a test process is started at the first use; it forks when it is asked, and tells how each child ended.
"""

import atexit
import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import IO, Any, NoReturn, TypeAlias

from support.paths import TESTS

_MAX_REQUEST = 1_048_576
_PRELOADED = (
    "anyio._backends._asyncio",
    "cyclopts.help",
    "encodings.unicode_escape",
    "lifebus.cli.admin.demo",
    "lifebus.cli.admin.hooks",
    "lifebus.cli.app",
    "lifebus.cli.bus.emit",
    "lifebus.cli.bus.proxy",
    "lifebus.cli.bus.serve",
    "lifebus.cli.bus.up",
    "lifebus.cli.read.receipts",
    "lifebus.cli.read.signals",
    "lifebus.stdio.peer",
    "lifebus_supervisor.configuration.resolution",
    "lifebus_supervisor.daemon.command_clients",
    "lifebus_supervisor.daemon.lifecycle",
    "lifebus_supervisor.daemon.logging",
    "lifebus_transports.http.server",
    "support.broker_process",
)


class Forked:
    """A forked process: what the suite needs of `subprocess.Popen`, with the same meaning."""

    def __init__(self, arguments: Sequence[str], pid: int, status: int, streams: Sequence[IO[bytes] | None]) -> None:
        self.args = list(arguments)
        self.pid = pid
        self.returncode: int | None = None
        self.status = status
        """The descriptor that becomes readable when the process ends; it is closed once the end was seen."""
        self.stdin, self.stdout, self.stderr = streams

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._read_status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        code = self._read_status(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Signal it, if it still runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, data: bytes = b"", timeout: float | None = None) -> tuple[bytes, bytes]:
        """Write the input, read both outputs to their ends, close the pipes and wait for its end.

        Raises:
            subprocess.TimeoutExpired: it still runs, or somebody has its outputs; it is killed.
        """
        with ThreadPoolExecutor(2) as readers:
            out, err = (readers.submit(_read_all, stream) for stream in (self.stdout, self.stderr))
            if self.stdin is not None and not self.stdin.closed:
                with suppress(BrokenPipeError), self.stdin:
                    self.stdin.write(data)
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            return out.result(timeout), err.result(timeout)

    def _read_status(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self.status], [], [], timeout)[0]:
            self.returncode = os.waitstatus_to_exitcode(int(os.read(self.status, 16)))
            os.close(self.status)
        return self.returncode


Process: TypeAlias = "subprocess.Popen[bytes] | Forked"


def _read_all(stream: IO[bytes] | None) -> bytes:
    if stream is None or stream.closed:
        return b""
    with stream:
        return stream.read()


class ForkServer:
    """The process that forks; it ends with the test process, or with `close`."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair()
        self._asking = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", "-c", "from support.fork_server import serve; serve()"],
                stdin=theirs.fileno(),
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])},
                process_group=0,  # Ctrl-C is for the children that a test signals itself
            )

    def start(
        self,
        entry: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        kept: Sequence[int] = (),
    ) -> Forked:
        """Fork a child that calls `entry` (``module:function``) with the arguments; it returns the exit code.

        The streams are asked for as `subprocess.Popen` has it: `PIPE`, `DEVNULL` or a descriptor.  `kept` are
        descriptors that the child has under the numbers they are given in `arguments` as ``{0}``, ``{1}``.
        """
        reading, writing = os.pipe()
        request = {"entry": entry, "arguments": list(arguments), "environment": dict(environment)}
        with ExitStack() as opened:
            opened.callback(os.close, writing)
            wanted = ((stdin, "wb"), (stdout, "rb"), (stderr, "rb"))
            ends = [_open_stream(stream, mode, opened) for stream, mode in wanted]
            descriptors = [writing, *(theirs for theirs, _ in ends), *kept]
            with self._asking:  # an answer is of whoever asked last
                socket.send_fds(self._requests, [json.dumps(request).encode()], descriptors)
                pid = int(self._requests.recv(16))
        return Forked([entry, *arguments], pid, reading, [ours for _, ours in ends])

    def close(self) -> None:
        """End the server; its children have ended by then."""
        self._requests.close()
        self._process.wait()


def _open_stream(wanted: int, mode: str, opened: ExitStack) -> tuple[int, IO[bytes] | None]:
    """Return the child's end of a stream, closed with `opened` unless it was given, and ours if it is a pipe."""
    if wanted not in {subprocess.PIPE, subprocess.DEVNULL}:
        return wanted, None
    if wanted == subprocess.DEVNULL:
        ours, theirs = None, os.open(os.devnull, os.O_RDWR)
    else:
        reading, writing = os.pipe()
        ours, theirs = (reading, writing) if mode == "rb" else (writing, reading)
    opened.callback(os.close, theirs)
    return theirs, None if ours is None else os.fdopen(ours, mode)


_servers: dict[int, ForkServer] = {}


def fork_server() -> ForkServer:
    """Return the server of this test process."""
    return _servers.get(os.getpid()) or _servers.setdefault(os.getpid(), ForkServer())


def close_fork_server() -> None:
    """End the server of this test process, if it was ever used."""
    if server := _servers.pop(os.getpid(), None):
        server.close()


def serve() -> NoReturn:
    """Be the server: fork at each request on stdin, tell the ends of the children, end with stdin."""
    for module in _PRELOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # no collection of a child looks at what it has from here, nor copies its pages for that
    requests = socket.socket(fileno=os.dup(0))
    wake_reader, wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_writer)
    ends: dict[int, int] = {}
    while True:
        readable, _, _ = select.select([requests.fileno(), wake_reader], [], [])
        if wake_reader in readable:
            os.read(wake_reader, 4096)
            _report_ends(ends)
        if requests.fileno() in readable:
            data, descriptors, _, _ = socket.recv_fds(requests, _MAX_REQUEST, 16)
            if not data:
                os._exit(0)
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                _become(json.loads(data), descriptors, [requests.detach(), wake_reader, wake_writer, *ends.values()])
            ends[pid] = descriptors[0]
            for descriptor in descriptors[1:]:
                os.close(descriptor)
            requests.send(b"%d" % pid)


def _report_ends(ends: dict[int, int]) -> None:
    """Write the wait status of each child that has ended; who asked may be gone."""
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with suppress(BrokenPipeError):
            os.write(ends[pid], b"%d" % status)
        os.close(ends.pop(pid))


def _become(request: dict[str, Any], descriptors: list[int], foreign: list[int]) -> NoReturn:
    """Turn the fork into the process that was asked for, and end as it ends."""
    code = 70
    try:
        for descriptor in foreign:
            os.close(descriptor)
        status, stdin, stdout, stderr, *kept = descriptors
        os.close(status)  # its end is told by the server
        _take_streams(stdin, stdout, stderr)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(request["environment"])
        random.seed()
        module, _, function = request["entry"].partition(":")
        arguments = [text.format(*kept) if kept else text for text in request["arguments"]]
        code = int(getattr(importlib.import_module(module), function)(*arguments) or 0)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  what a fresh interpreter would print at its end
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        os._exit(_finish(code))


def _finish(code: int) -> int:
    """Do what an interpreter does at its end, and return the exit code: 120 where stdout cannot be written."""
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        sys.excepthook(*sys.exc_info())
        code = 120
    sys.stderr.flush()
    return code


def _take_streams(*streams: int) -> None:
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for descriptor in set(streams):
        os.close(descriptor)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)


def script(program: str, *arguments: str) -> None:
    """Be a program in Python with these arguments."""
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


def command_line(*arguments: str) -> None:
    """Be `lifebus` with these arguments."""
    from lifebus.cli import main  # noqa: PLC0415  only the child imports what it runs

    sys.argv = ["lifebus", *arguments]
    main()
