"""A home of its own for a harness: an empty environment, loopback only, and processes that end with the block."""

import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

PATIENCE_S: Final = 90.0
NOWHERE: Final = "http://127.0.0.1:9"
_LINGER_S: Final = 3.0
_RETRY_S: Final = 0.05
MARK: Final = "HARNESS_RUN"
"""The variable by which the processes of one run are found."""
_SYSTEM_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Ran:
    """How a process ended: its exit code, negative for a signal, and what it wrote."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Sandbox:
    """The directories of one home.  `more_path` are directories in which further programs are found."""

    home: Path
    more_path: tuple[str, ...] = ()

    @property
    def project(self) -> Path:
        """The directory in which harnesses work, a git repository."""
        return self.home / "project"

    @property
    def bin(self) -> Path:
        """The first place on the path of programs."""
        return self.home / "bin"

    @property
    def tmp(self) -> Path:
        """The directory for temporary files, and for what processes write."""
        return self.home / "tmp"

    @property
    def state_dir(self) -> Path:
        """Where lifebus keeps its state when nothing says otherwise."""
        return self.home / ".local/state/lifebus"

    @property
    def runtime_dir(self) -> Path:
        """Where the broker has its sockets when nothing says otherwise."""
        return self.state_dir / "run"

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the whole environment of a process here."""
        base = {
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PATH": ":".join([str(self.bin), *self.more_path, _SYSTEM_PATH]),
            "TERM": "xterm",
            "TMPDIR": str(self.tmp),
        }
        if not only_loopback():
            base |= {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1,localhost"}
        return base | dict(variables)

    @asynccontextmanager
    async def started(self, command: Sequence[str], variables: Mapping[str, str]) -> AsyncGenerator["Started"]:
        """A process in the project directory while it runs; it and its children are gone at the end of the block."""
        _let_interrupts_through()
        out, err, mark = self.tmp / "out", self.tmp / "err", uuid.uuid4().hex
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(  # noqa: ASYNC220, S603  starting takes no time; the user's own harness
                command,
                cwd=self.project,
                env=self.environment(variables) | {MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        started = Started(process, out, err, mark)
        try:
            yield started
        finally:
            started.end()


class Started:
    """A running harness: the leader of a process group of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", out: Path, err: Path, mark: str) -> None:
        self._process = process
        self._out = out
        self._err = err
        self._mark = mark

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to the program and to everything that it has started, also what has left its group."""
        for pid in {self._process.pid, *_marked(self._mark)}:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program alone, not to what it has started."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end, in this thread: nothing stands between the end and whoever measures it."""
        return self._process.wait(PATIENCE_S)

    async def ended(self, patience: float = PATIENCE_S) -> Ran:
        """Wait for its end.

        Raises:
            TimeoutError: it still runs after `patience` seconds.
        """
        try:
            code = await anyio.to_thread.run_sync(self._process.wait, patience)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"not done after {patience:g} s: {self._ran(0)}") from None
        return self._ran(code)

    async def alone(self) -> None:
        """Wait until what it has started has ended too, or for some seconds: its last hooks may outlive it."""
        with anyio.move_on_after(_LINGER_S):
            while _marked(self._mark):  # noqa: ASYNC110  other processes end
                await anyio.sleep(_RETRY_S)

    def end(self) -> None:
        """Kill it with everything that it started, also what has left its group; nothing of it is left."""
        others = _marked(self._mark)
        with suppress(ProcessLookupError):  # all of the group is gone
            os.killpg(self._process.pid, signal.SIGKILL)
        for pid in others:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(PATIENCE_S)

    def _ran(self, code: int) -> Ran:
        return Ran(code, self._out.read_text(errors="replace"), self._err.read_text(errors="replace"))


@contextmanager
def sandbox(more_path: tuple[str, ...] = ()) -> Generator[Sandbox]:
    """A sandbox while the block lasts; the directory's path is short enough for a socket."""
    home = Path(tempfile.mkdtemp(prefix="lb-"))
    try:
        found = Sandbox(home, more_path)
        for folder in (found.bin, found.tmp, found.project):
            folder.mkdir()
        git = ["git", "init", "--quiet", str(found.project)]
        subprocess.run(git, env=found.environment({}), check=True, timeout=PATIENCE_S)  # noqa: S603  our own words
        yield found
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _let_interrupts_through() -> None:
    """Undo what a shell does to jobs in the background: they, and all that they start, ignore SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def only_loopback() -> bool:
    """Whether this process has no network but loopback."""
    devices = Path("/proc/self/net/dev")
    if not devices.exists():
        return False
    return {line.partition(":")[0].strip() for line in devices.read_text().splitlines()[2:]} <= {"lo"}


def _marked(mark: str) -> set[int]:
    """Return the processes that have the mark in their environment, as far as Linux tells; elsewhere none.

    Children of a dead parent belong to nobody, so they are known by what they inherited.
    """
    wanted, found = f"{MARK}={mark}".encode(), set[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
    return found - {os.getpid()}
