"""Pages of the documentation as what their readers do: files to save, and commands for a shell, in order.

A code block is a file where the line before it begins with the file's name in backquotes; a block in `sh` is run; any
other block is only read.
"""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from support.paths import DOCS
from support.patience import PATIENCE_S

_BLOCK = re.compile(
    r"(?:^`(?P<file>[\w./-]+)`[^\n]*:\n\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """One code block, with the name of the file that it is to be saved as."""

    file: str | None
    language: str
    text: str


class Page:
    """One page of `docs/`."""

    def __init__(self, name: str) -> None:
        self.text = (DOCS / name).read_text()
        self.blocks = [Block(*found) for found in _BLOCK.findall(self.text)]

    @property
    def files(self) -> dict[str, str]:
        """What each file holds that the page has its reader save."""
        return {block.file: block.text for block in self.blocks if block.file}

    @property
    def commands(self) -> list[str]:
        """The blocks for the shell, in order."""
        return [block.text for block in self.blocks if block.language == "sh" and not block.file]

    def save(self, folder: Path) -> None:
        """Save every file of the page."""
        for name, text in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)


@dataclass(frozen=True)
class Shown:
    """What a shell on a terminal showed, and its exit code."""

    code: int
    text: str


class Reader:
    """Somebody who follows a page: a folder that is home and working directory, and a terminal."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "COLUMNS": "160",
            "PYTHONWARNINGS": "error",
            "LIFEBUS_RUNTIME_DIR": str(folder / "run"),
            "LIFEBUS_STATE_DIR": str(folder / "state"),
            **variables,
        }

    @contextmanager
    def started(self, command: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A block while it runs, with a pipe for what it writes; gone at the end, with all that it started."""
        process = subprocess.Popen(
            ["sh", "-ec", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=PATIENCE_S)

    def run(self, command: str, types: bytes = b"") -> Shown:
        """Run a block on a terminal, with what is typed there; return what it showed."""
        ours, theirs = pty.openpty()
        os.write(ours, types)
        process = subprocess.Popen(
            ["sh", "-ec", command],
            cwd=self.folder,
            env=self.environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        shown = _until_closed(ours)
        return Shown(process.wait(PATIENCE_S), shown.decode().replace("\r\n", "\n"))


def _until_closed(terminal: int) -> bytes:
    """Return what comes until nobody has the other side open any more."""
    shown = b""
    deadline = time.monotonic() + PATIENCE_S
    try:
        while select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part = os.read(terminal, 65_536)
            if not part:
                break
            shown += part
    except OSError:  # Linux says so by EIO
        pass
    finally:
        os.close(terminal)
    return shown
