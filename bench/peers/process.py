"""Starting and stopping a server for the length of a benchmark: own directory, own port or sockets, own log."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_START_LIMIT_S = 30.0
_STOP_LIMIT_S = 10.0


def find_program(name: str) -> str | None:
    """Return the program's path: beside this Python (a wheel may bring it) or on PATH; None when it is nowhere."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def workspace() -> Iterator[Path]:
    """Provide a directory, removed at the end; in the user's cache, so that all systems write to the same real disk."""
    # /tmp may be memory, where a sync costs nothing.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="lifebus-bench-", dir=cache))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start(
    command: Sequence[str], ready: Callable[[], bool], log: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a server and return once it is ready.

    Raises:
        RuntimeError: it ended or was not ready in time; the text holds the end of its log.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=env)
    deadline = time.monotonic() + _START_LIMIT_S
    # A server that dies at once is reported at once, with its log.
    while time.monotonic() < deadline and process.poll() is None:
        if ready():
            return process
        time.sleep(0.005)
    stop(process)
    raise RuntimeError(f"{command[0]} did not start:\n{log.read_text(errors='replace')[-2000:]}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a server: ask, wait, kill."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_LIMIT_S)
    process.kill()
    process.wait()


@contextmanager
def server(command: Sequence[str], port: int, log: Path) -> Iterator[int]:
    """Run a server until the block ends, which gets its process id once its port takes connections."""
    process = start(command, lambda: _listens(port), log)
    try:
        yield process.pid
    finally:
        stop(process)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
