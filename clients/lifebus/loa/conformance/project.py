"""A project of the suite: phases that are scripts, say when they start, and end as they are told."""

import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import anyio

_SCRIPT: Final = """\
#!/bin/sh
# A phase of the conformance suite: says that it has started, and ends with the code that it is given.
PATH=/usr/bin:/bin:$PATH
gate="$1/gate.$2.$$"
rm -f "$gate"
mkfifo "$gate" || exit 70
echo "$2 $$ ${LOA_MODIFIED:-}" > "$1/starts"
read -r code < "$gate"
rm -f "$gate"
exit "${code:-70}"
"""


class CheckFailed(Exception):
    """What a runtime does is against the contract; the text says what was seen."""


@dataclass(frozen=True)
class PhaseStarted:
    """A phase's script that has started, and waits for its exit code; `modified` is its variable LOA_MODIFIED."""

    phase: str
    gate: Path
    modified: str

    def __str__(self) -> str:
        return f"phase `{self.phase}` started"


class ScriptedProject:
    """The project root, with the script and the pipes beside it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.state = folder / "state"
        self._pipes = folder / "pipes"
        for one in (self.root, self.state, self._pipes):
            one.mkdir()
        self._script = folder / "phase.sh"
        self._script.write_text(_SCRIPT)
        os.mkfifo(self._pipes / "starts")
        # Open for writing too: the pipe has no end, whoever comes and goes.
        self._starts = os.open(self._pipes / "starts", os.O_RDWR | os.O_NONBLOCK)
        self._held: list[int] = []
        self._unread = b""

    @classmethod
    def new(cls) -> Self:
        """Return a project in a new temporary folder."""
        return cls(Path(tempfile.mkdtemp(prefix="lifebus-conform-")).resolve())

    def command(self, phase: str) -> tuple[str, ...]:
        """Return the program of a phase."""
        return ("/bin/sh", str(self._script), str(self._pipes), phase)

    async def next_start(self) -> PhaseStarted:
        """Wait until a phase's script has started."""
        while b"\n" not in self._unread:
            await anyio.wait_readable(self._starts)
            self._unread += os.read(self._starts, 4_096)
        line, _, self._unread = self._unread.partition(b"\n")
        phase, pid, modified = line.decode(errors="replace").split(" ", 2)
        return PhaseStarted(phase, self._pipes / f"gate.{phase}.{pid}", modified)

    def end(self, started: PhaseStarted, code: int) -> None:
        """Have a script end with a code.

        Raises:
            CheckFailed: the script is gone, and nobody told it to.
        """
        try:
            # For reading too, so that it does not matter whether the script has opened its end already.
            gate = os.open(started.gate, os.O_RDWR | os.O_NONBLOCK)
        except FileNotFoundError:
            raise CheckFailed(f"the script of phase `{started.phase}` has ended by itself") from None
        os.write(gate, f"{code}\n".encode())
        self._held.append(gate)

    def release(self) -> None:
        """Have every script end that still waits, and forget what they said."""
        for gate in self._pipes.glob("gate.*"):
            # Nobody reads from the pipe of a script that was killed.
            with contextlib.suppress(OSError):
                pipe = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
                os.write(pipe, b"0\n")
                os.close(pipe)
            gate.unlink(missing_ok=True)
        while self._held:
            os.close(self._held.pop())
        with contextlib.suppress(BlockingIOError):
            while os.read(self._starts, 65_536):
                pass
        self._unread = b""

    def close(self) -> None:
        """Close the pipes and remove what was written."""
        self.release()
        os.close(self._starts)
        shutil.rmtree(self.root.parent, ignore_errors=True)
