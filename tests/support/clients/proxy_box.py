"""A place to run the real `lifebus app-server tee` and `run` in, with programs behind them that do as a test says."""

import mmap
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from lifebus.proxy.shared_memory import REPORTED
from lifebus_transports.framing.hook_frames import CallMessage
from support.clients.hook_box import spooled_in
from support.paths import SUPPORT
from support.patience import PATIENCE_S
from support.running import short_directory

_CLOCK_S = 5.0
"""How far the kernel's word on when a process began may be from the clock."""
_PATIENT = SUPPORT / "clients/patient_observer"
CAT = ("cat",)
_BLIND = "import sys; sys.executable = '/bin/true'; from lifebus.cli import main; main()"
"""The command, except that what it starts as its observer ends at once: half a second less for each test."""


def python(program: str) -> tuple[str, ...]:
    """A command that runs a little Python program, without buffers."""
    return (sys.executable, "-I", "-S", "-u", "-c", program)


@dataclass
class ProxyBox:
    """Runtime and state directory of one test, without a broker unless the test starts one.

    A `patient` observer gives a broker that is there as much time for the end as a test has: on a busy machine the
    usual second is too short, and what matters mostly is what is told.
    """

    base: Path
    kind: str = "tee"
    blind: bool = False
    patient: bool = True
    extra: dict[str, str] = field(default_factory=dict[str, str])
    began: float = field(default_factory=lambda: time.time() - _CLOCK_S)

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": os.defpath,
            "HOME": str(self.base),
            "PYTHONPATH": self.python_path(*os.environ.get("PYTHONPATH", "").split(os.pathsep)),
            "PYTHONWARNINGS": "error",
            "LIFEBUS_RUNTIME_DIR": str(self.base / "run"),
            "LIFEBUS_STATE_DIR": str(self.base / "state"),
            **self.extra,
        }

    def python_path(self, *places: str) -> str:
        """The places where the programs of this box find their modules."""
        return os.pathsep.join([*([str(_PATIENT)] if self.patient else []), *filter(None, places)])

    def words(self, command: tuple[str, ...], *options: str) -> list[str]:
        """The command line of a proxy in front of a command."""
        program = ("-c", _BLIND) if self.blind else ("-m", "lifebus")
        return [sys.executable, *program, "app-server", self.kind, *options, "--", *command]

    @contextmanager
    def started(self, command: tuple[str, ...], *options: str, **popen: Any) -> "Iterator[subprocess.Popen[bytes]]":
        """A proxy in front of a command, gone at the end of the block, and its observer with it."""
        words = self.words(command, *options)
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = subprocess.Popen(words, **{"env": self.env, "bufsize": 0, **pipes, **popen})
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE_S)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def run(self, command: tuple[str, ...], stdin: bytes = b"", *options: str) -> tuple[int, bytes, bytes]:
        """Run to the end; return exit code, stdout and stderr."""
        with self.started(command, *options) as process:
            out, err = process.communicate(stdin, PATIENCE_S)
        return process.returncode, out, err

    def processes(self) -> list[psutil.Process]:
        """Every living process of this box but brokers: it has our runtime directory in its environment."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            try:
                if process.create_time() < self.began:  # known without reading anything: most are older
                    continue
                if any("broker_process" in word for word in process.cmdline()):
                    continue
                ours = process.environ().get("LIFEBUS_RUNTIME_DIR") == str(self.base / "run")
                if ours and process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def is_quiet(self) -> bool:
        """Whether no process of this box is left.

        One look may miss the last of them: it began behind the list of processes, and the one that started it is gone.
        """
        return not self.processes() and not self.processes()

    def observer(self) -> psutil.Process:
        """The observer, once it has started."""
        found: list[psutil.Process] = []

        def is_ready() -> bool:
            found[:] = [process for process in self.processes() if "lifebus.observer" in process.cmdline()]
            return bool(found)

        eventually(is_ready)
        return found[0]

    def program(self, word: str) -> psutil.Process:
        """The program behind the proxy, by a word of its command line."""
        (found,) = [one for one in self.processes() if word in one.cmdline() and "lifebus" not in one.cmdline()]
        return found

    def final_calls(self) -> list[CallMessage]:
        """What observers have left in the spool."""
        return spooled_in(self.base / "state" / "spool")[0]


@contextmanager
def proxy_box(kind: str = "tee", *, blind: bool = False) -> Iterator[ProxyBox]:
    """A box without a broker: whose observer waits for one would wait in vain."""
    with short_directory() as base:
        box = ProxyBox(base, kind, blind, patient=False)
        yield box
        if not blind:
            eventually(box.is_quiet)  # an observer still writes into the directory


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    until = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"still not so after {PATIENCE_S:g} s")
        pause.wait(0.01)


def read_exactly(process: "subprocess.Popen[bytes]", size: int) -> bytes:
    """Read so many bytes of its stdout."""
    assert process.stdout is not None
    found = b""
    while len(found) < size:
        piece = os.read(process.stdout.fileno(), size - len(found))
        assert piece, found
        found += piece
    return found


def write_all(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    assert process.stdin is not None
    view = memoryview(data)
    while view:
        view = view[os.write(process.stdin.fileno(), view) :]


def reported(observer: psutil.Process, size: int) -> None:
    """Wait until an observer has reported so much of both directions: after its server's end it has two seconds."""
    eventually(lambda: positions(observer, REPORTED) == {size})


def positions(observer: psutil.Process, what: int) -> set[int]:
    """How far an observer is in the two directions, as the memory says that it shares with the proxy."""
    with Path(f"/proc/{observer.pid}/fd/3").open("rb") as file, mmap.mmap(file.fileno(), 4_096, prot=1) as head:
        return set(struct.unpack_from("=2q", head, 8 * what))
