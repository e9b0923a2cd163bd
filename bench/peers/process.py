"""Starting and stopping a server for the length of a benchmark: loopback, free port, own temporary directory."""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


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
def workspace(name: str) -> Iterator[Path]:
    """Provide a directory on the disk that holds the temporary files; it is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix=f"lifebus-bench-{name}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def server(command: Sequence[str], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends; the block starts once its port takes connections."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            _await_port(port, process, log)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await_port(port: int, process: subprocess.Popen[bytes], log: Path, limit: float = 15.0) -> None:
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"the server did not start:\n{log.read_text(errors='replace')[-2000:]}")
