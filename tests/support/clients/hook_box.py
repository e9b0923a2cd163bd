"""A place to run the real hook in: its directories, its environment, and a broker that follows a script."""

import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import lifebus
from lifebus_adapters.adapter import HookCall
from lifebus_transports.framing.hook_frames import CallMessage, CallReader
from lifebus_transports.hooks.spool import split_records
from support.patience import PATIENCE_S, SOON_S

HOOK = Path(lifebus.__file__).with_name("hook.py")
COMMAND = (sys.executable, "-I", "-S", str(HOOK))
_PATIENT: Final = f"""
import sys, types
hook = types.ModuleType("hook")
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), hook.__dict__)
hook._EXCHANGE_S = {PATIENCE_S}
hook._end(hook.main(sys.argv[2:]))
"""
PATIENT_COMMAND = (sys.executable, "-I", "-S", "-c", _PATIENT, str(HOOK))
"""The hook, except that it waits for its answer as long as a test does: for what matters is what the answer says."""
LIMIT_S: Final = 0.3
"""How long a hook keeps its harness waiting: then it spools its call, whoever may have been about to answer."""

T = TypeVar("T")


@dataclass(frozen=True)
class HookRun:
    """What the harness saw of one hook process."""

    code: int
    stdout: bytes
    stderr: bytes
    seconds: float


def assert_silent(run: HookRun) -> None:
    """The harness noticed nothing."""
    assert (run.code, run.stdout, run.stderr) == (0, b"", b"")
    assert run.seconds < SOON_S  # it gave up by itself; the bench measures the real figure


@dataclass
class HookBox:
    """Runtime and state directory of one test."""

    base: Path
    extra: dict[str, str] = field(default_factory=dict[str, str])
    command: tuple[str, ...] = COMMAND

    @property
    def runtime(self) -> Path:
        return self.base / "run"

    @property
    def spool(self) -> Path:
        return self.base / "state" / "spool"

    @property
    def socket_path(self) -> Path:
        return self.runtime / "hook.sock"

    @property
    def env(self) -> dict[str, str]:
        own = {"LIFEBUS_RUNTIME_DIR": str(self.runtime), "LIFEBUS_STATE_DIR": str(self.base / "state")}
        return {"PATH": os.defpath, "HOME": str(self.base), **own, **self.extra}

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[bytes]":
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen([*self.command, *arguments], **{"env": self.env, **pipes, **options})

    def run(self, stdin: bytes = b"{}", *arguments: str, **options: Any) -> HookRun:
        """Run the hook to its end; the default call is a session start of codex."""
        with filled(stdin) as source:
            began = time.monotonic()
            with self.start(*(arguments or ("codex", "SessionStart")), stdin=source, **options) as hook:
                stdout, stderr = hook.communicate(timeout=PATIENCE_S)
        return HookRun(hook.returncode, stdout, stderr, time.monotonic() - began)

    def answered(self, stdin: bytes = b"{}", *arguments: str, **options: Any) -> HookRun:
        """As `run`, by a machine that was quick enough for an answer."""
        return self.in_time(lambda: self.run(stdin, *arguments, **options))

    def in_time(self, run: Callable[[], T]) -> T:
        """Run a hook again where it had no answer because the machine was slow: it took its limit, and has spooled."""
        until = time.monotonic() + PATIENCE_S
        while True:
            began = time.monotonic()
            done = run()
            if (now := time.monotonic()) - began < LIMIT_S or now > until or not self.spooled():
                return done
            (self.spool / "calls").unlink()

    def start_many(self, count: int, stdin: bytes) -> "list[subprocess.Popen[bytes]]":
        """Start hooks at once, named Hook0, Hook1 …, that find their stdin in a file."""
        file = self.base / "payload"
        file.write_bytes(stdin)
        hooks: list[subprocess.Popen[bytes]] = []
        for number in range(count):
            with file.open("rb") as payload:
                hooks.append(self.start("codex", f"Hook{number}", stdin=payload))
        return hooks

    def spooled(self, count: int = 0) -> list[HookCall]:
        """Return the calls in the spool, all of which must be whole, once there are so many of them.

        A hook on a slow machine lets its harness go first, and has a child spool the call.
        """
        until = time.monotonic() + PATIENCE_S
        while (torn := (found := spooled_in(self.spool))[1]) or len(found[0]) < count:
            if time.monotonic() > until:
                break
            time.sleep(0.005)
        assert not torn
        return [record.call for record in found[0]]


def spooled_in(spool: Path) -> tuple[list[CallMessage], bool]:
    """Return the whole calls in a spool, and whether there is something else: one that is being written just now.

    Each is there once: a hook whose time is over behind its write has a child write the call again.
    """
    file = spool / "calls"
    records = list(split_records(file.read_bytes())) if file.exists() else []
    return list({one.header.call_id: one for one in records if one is not None}.values()), None in records


@contextmanager
def filled(data: bytes) -> Iterator[int]:
    """A stdin with everything in it and its end: a pipe where it fits into any, else a file.

    The hook waits for its stdin for a moment only, and a test that a busy machine stops may take longer.
    """
    with tempfile.TemporaryFile() as file:
        if len(data) > select.PIPE_BUF:
            file.write(data)
            file.seek(0)
            yield file.fileno()
            return
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        try:
            yield reading
        finally:
            os.close(reading)


@contextmanager
def scripted_broker(box: HookBox, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    """Accept connections at the box's socket, and let `serve` treat each; closed after that."""
    box.runtime.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(box.socket_path))
        listener.listen(64)
        thread = threading.Thread(target=_accept, args=(listener, serve))
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_S)


def _accept(listener: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    with suppress(OSError):  # shut down at the end of the test
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.settimeout(PATIENCE_S)
                serve(connection)


def receive_call(connection: socket.socket) -> CallMessage:
    """Read one whole call from a connection."""
    reader = CallReader()
    while (frame := reader.feed(received := connection.recv(65_536))) is None:
        if not received:
            raise ConnectionError("the hook has given up")
    return frame


def answering(answer: bytes, calls: list[CallMessage] | None = None) -> Callable[[socket.socket], None]:
    """Return a script that takes a call, keeps it, and answers these bytes."""

    def serve(connection: socket.socket) -> None:
        frame = receive_call(connection)
        if calls is not None:
            calls.append(frame)
        connection.sendall(answer)

    return serve


@contextmanager
def locked_by_another(file: Path) -> Iterator[None]:
    hold = (
        "import os, sys; f = os.open(sys.argv[1], os.O_WRONLY); os.lockf(f, os.F_LOCK, 0); print(flush=True); input()"
    )
    command = [sys.executable, "-c", hold, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        yield
        writer.kill()
