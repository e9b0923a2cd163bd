"""A broker as a process without a terminal: started until it is ready, and stopped until it is gone."""

import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from msgspec import Struct

from lifebus_contract import LifebusError
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.daemon.log_file import end_of_log, open_log
from lifebus_supervisor.daemon.own_commands import COMMAND as OWN_COMMAND
from lifebus_supervisor.daemon.readiness import READY, VARIABLE
from lifebus_transports.directories import home_directory
from lifebus_transports.runtime_dir import broker_of, ensure_private_directory, lock_holder

_START_S: Final = 60.0
_LOOK_S: Final = 0.1

COMMAND: Final = (*OWN_COMMAND, "up")
"""What runs a broker."""


class StartOutcome(Struct, frozen=True, kw_only=True):
    """How a start went: without an `exit_code` the broker runs; `log` is the end of its log where it is not ready."""

    pid: int
    ready: bool
    exit_code: int | None = None
    log: tuple[str, ...] = ()


class Holder(Struct, frozen=True, kw_only=True):
    """Who holds a runtime directory: its process id, None where it cannot be known, and in words."""

    pid: int | None
    words: str


def start_detached(
    settings: Settings, words: Sequence[str], *, environ: Mapping[str, str] = os.environ, seconds: float = _START_S
) -> StartOutcome:
    """Start a broker in a session of its own, and return when it is ready, has ended, or the time is over.

    Its streams lead into its log file, and it stands in the home directory: nothing of a terminal is kept.

    Raises:
        LifebusError: another broker holds the runtime directory (`already_running`), or a directory is not ours.
        OSError: the log cannot be written.
    """
    held = holder_of(settings.runtime_dir)
    if held is not None:
        detail = f"{settings.runtime_dir} is held by {held.words}; stop it with `lifebus down`, or use another one"
        raise LifebusError(detail, code="already_running")
    log = prepare_log(settings)
    # Not at its beginning: what an older broker wrote is not why this one does not start.
    since = log.stat().st_size if log.exists() else 0
    with (
        tempfile.TemporaryDirectory(prefix="lifebus-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
    ):
        address = f"{folder}/ready"
        listening.bind(address)
        process = _start(words, log, {**environ, VARIABLE: address, "LIFEBUS_LOG_FILE": str(log)})
        ready = _wait_ready(process, listening, seconds)
    # A broker that ended in the moment in which it was ready counts as ended.
    code = process.poll()
    if code is None:
        process.returncode = 0  # it outlives this process, and `Popen` complains of children that nobody waits for
    if ready and code is None:
        return StartOutcome(pid=process.pid, ready=True)
    return StartOutcome(pid=process.pid, ready=False, exit_code=code, log=tuple(end_of_log(log, since=since)))


def prepare_log(settings: Settings) -> Path:
    """Return the log file of a broker without a terminal; the usual directory for it is made.

    Raises:
        LifebusError: the directory is not ours alone.
    """
    log = settings.usual_log_file
    if settings.log_file is None:
        ensure_private_directory(log.parent)
    return log


def _start(words: Sequence[str], log: Path, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    output = open_log(log)
    try:
        return subprocess.Popen(  # noqa: S603  our own program
            [*COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            cwd=home_directory(environment),
            start_new_session=True,
        )
    finally:
        os.close(output)


def _wait_ready(process: "subprocess.Popen[bytes]", listening: socket.socket, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < until:
        if select.select([listening], [], [], _LOOK_S)[0]:
            return listening.recv(4_096).startswith(READY)
    return False


def holder_of(runtime_dir: Path) -> Holder | None:
    """Return who holds a runtime directory, None where nobody does."""
    lock = runtime_dir / "lock"
    words = lock_holder(lock)
    if words is None:
        return None
    try:
        noted: Any = json.loads(broker_of(lock) or "")
        pid = int(noted["pid"])
    except (ValueError, KeyError, TypeError):
        pid = None
    return Holder(pid=pid, words=words)


def stop_broker(runtime_dir: Path, holder: Holder, seconds: float) -> bool:
    """Ask a broker to stop, and return whether it is gone when the time is over.

    Raises:
        PermissionError: it is another user's.
    """
    until = time.monotonic() + seconds
    if holder.pid is not None:
        # The number may have been given to another process since the lock was looked at.
        with _Process(holder.pid) as process:
            now = holder_of(runtime_dir)
            if now is None or now.pid != holder.pid:
                return now is None
            process.terminate()
            process.wait(until)
    # The lock is free when the process has ended, also where it is not one that this one can see.
    while (left := holder_of(runtime_dir)) is not None and left.pid == holder.pid and time.monotonic() < until:
        time.sleep(_LOOK_S)
    return left is None or left.pid != holder.pid


class _Process:
    """Another process, which keeps its identity while the block lasts where the system can do that."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        if hasattr(os, "pidfd_open"):
            try:
                self._descriptor = os.pidfd_open(self._pid)
            except OSError:  # it is gone, or the kernel is too old
                self._descriptor = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def terminate(self) -> None:
        try:
            if self._descriptor is not None:
                signal.pidfd_send_signal(self._descriptor, signal.SIGTERM)
            else:
                os.kill(self._pid, signal.SIGTERM)
        except ProcessLookupError:
            return

    def wait(self, until: float) -> None:
        """Wait for its end without asking again and again, where the system tells it."""
        if self._descriptor is not None:
            select.select([self._descriptor], [], [], max(0.0, until - time.monotonic()))
