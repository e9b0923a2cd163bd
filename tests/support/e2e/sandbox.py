"""A home of its own for a harness: an empty environment, loopback only, and processes that end with the test."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from support.running import short_directory

PATIENCE_S = 90.0
NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Ran:
    """What a run of a harness came to."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Sandbox:
    """The directories of one test."""

    home: Path
    more_path: tuple[str, ...] = ()

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def bin(self) -> Path:
        """The first place on the path of programs."""
        return self.home / "bin"

    @property
    def tmp(self) -> Path:
        return self.home / "tmp"

    @property
    def state_dir(self) -> Path:
        """Where lifebus keeps its state when nothing says otherwise."""
        return self.home / ".local/state/lifebus"

    @property
    def runtime_dir(self) -> Path:
        return self.state_dir / "run"

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the whole environment of a process here."""
        base = {
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PATH": ":".join([str(self.bin), *self.more_path, "/usr/local/bin:/usr/bin:/bin"]),
            "TERM": "xterm",
            "TMPDIR": str(self.tmp),
        }
        if not only_loopback():
            base |= {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1,localhost"}
        return base | dict(variables)

    @asynccontextmanager
    async def started(self, command: Sequence[str], variables: Mapping[str, str]) -> AsyncIterator["Started"]:
        """A process in the project directory while it runs; it and its children are gone at the end of the block."""
        out, err = self.tmp / "out", self.tmp / "err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(  # noqa: ASYNC220  starting takes no time
                command,
                cwd=self.project,
                env=self.environment(variables),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        started = Started(process, out, err)
        try:
            yield started
        finally:
            started.end()


class Started:
    """A running harness: the leader of a process group of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", out: Path, err: Path) -> None:
        self._process = process
        self._out = out
        self._err = err

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program alone, not to what it has started."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end, in this thread: nothing stands between the end and whoever measures it."""
        return self._process.wait(PATIENCE_S)

    async def ended(self, patience: float = PATIENCE_S) -> Ran:
        """Wait for its end."""
        try:
            code = await asyncio.to_thread(self._process.wait, patience)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"not done after {patience:g} s: {self._ran(0)}") from None
        return self._ran(code)

    def end(self) -> None:
        """Kill it with everything that it started, also what has left its group; nothing of it is left."""
        family = self._family()
        with suppress(ProcessLookupError):  # all of the group is gone
            os.killpg(self._process.pid, signal.SIGKILL)
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(PATIENCE_S)

    def _family(self) -> list[psutil.Process]:
        """Return what it has started, as far as that can be known: children of a dead parent are nobody's."""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children(recursive=True)
        return []

    def _ran(self, code: int) -> Ran:
        return Ran(code, self._out.read_text(errors="replace"), self._err.read_text(errors="replace"))


@contextmanager
def sandbox(more_path: tuple[str, ...] = ()) -> Iterator[Sandbox]:
    """A sandbox while the block lasts."""
    with short_directory() as home:
        found = Sandbox(home, more_path)
        for folder in (found.bin, found.tmp, found.project):
            folder.mkdir()
        git = ["git", "init", "--quiet", str(found.project)]
        subprocess.run(git, env=found.environment({}), check=True, timeout=PATIENCE_S)
        yield found


def only_loopback() -> bool:
    """Whether this process has no network but loopback."""
    devices = Path("/proc/self/net/dev")
    if not devices.exists():
        return False
    return {line.partition(":")[0].strip() for line in devices.read_text().splitlines()[2:]} <= {"lo"}
