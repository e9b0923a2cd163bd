"""The page of all metrics as a file, for the textfile collector of node_exporter."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import structlog

_MODE: Final = 0o644
_log = structlog.get_logger("lifebus.metrics")


class MetricsFile:
    """Writes the page to `path` every `every_s` seconds; the file is there as a whole or not at all."""

    def __init__(self, path: Path, every_s: int, text: Callable[[], str]) -> None:
        self._path, self._every_s, self._text = path, every_s, text
        self._failing = False

    async def run(self) -> None:
        """Write until cancelled, and then remove the file, so that nobody takes old numbers for present ones."""
        try:
            while True:
                await self._write_once()
                await anyio.sleep(self._every_s)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_remove, self._path)

    async def _write_once(self) -> None:
        """Write the file; a fault is logged once, and the next write is made all the same."""
        try:
            await anyio.to_thread.run_sync(write_text, self._path, self._text())
        except OSError as fault:
            if not self._failing:
                _log.warning("metrics_unwritten", path=str(self._path), fault=str(fault))
            self._failing = True
        else:
            self._failing = False


def write_text(path: Path, text: str) -> None:
    """Put a file in its place in one step, readable for every user: the collector is another one.

    It is not synced: what is lost in a power cut is written again at the next start.

    Raises:
        OSError: the system refused.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")  # the collector reads only names that end in `.prom`
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, _MODE)  # whatever the umask says
            file.write(text)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as fault:
        _log.warning("metrics_unremoved", path=str(path), fault=str(fault))
