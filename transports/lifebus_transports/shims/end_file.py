"""How a command ended, in a file beside its output: there whole or not at all, also after a power cut."""

import contextlib
import json
import os
from pathlib import Path
from typing import Final

_ENDING: Final = ".end"


def forget_end(output: str) -> None:
    """Remove what an earlier command with this output left.

    Raises:
        OSError: it cannot be removed; it would be taken for the end of the new one.
    """
    with contextlib.suppress(FileNotFoundError):
        Path(output + _ENDING).unlink()


def record_end(output: str, status: int, *, asked: bool) -> None:
    """Write how a command ended; where that cannot be done, nothing is there, and it counts as interrupted."""
    path = output + _ENDING
    with contextlib.suppress(OSError):
        descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, json.dumps({"status": status, "asked": asked}).encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        Path(f"{path}.new").rename(path)
        folder = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
