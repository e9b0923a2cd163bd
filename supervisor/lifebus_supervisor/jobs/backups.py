"""Back the ledger up on a schedule, by the command that a user would run, in a process of its own at low priority.

`lifebus ledger backup --rotate` copies, checks, renames and removes the oldest (docs/ledger.md, "Scheduled backups");
in a process of its own the check of a large ledger takes neither memory nor the interpreter of the broker.
"""

import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

import anyio
import anyio.to_thread
import structlog

from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.jobs.backup_files import BackupFile, newest_in
from lifebus_transports.messages.state import BackupStatus
from lifebus_transports.processes.outcomes import Finished
from lifebus_transports.processes.spec import CommandSpec

_HOUR_S: Final = 3_600
_MOST_S: Final = 6.0 * _HOUR_S
"""How long one may take, copy and check together."""

_AGAIN_S: Final = 300.0
"""After one that failed the next is tried."""

_GENTLY: Final = ("nice", "-n", "10")

_log = structlog.get_logger("lifebus.backup")


class RunCommand(Protocol):
    """Runs a command and returns how it ended (`processes.Commands.run_once`)."""

    def __call__(self, spec: CommandSpec, stdin: bytes, seconds: float, /) -> Awaitable[Finished]:
        """Return how it ended."""
        ...


class BackupTask:
    """Makes a backup whenever the newest one in the folder is old enough.  `clock` returns wall-clock seconds."""

    def __init__(self, settings: Settings, folder: Path, run: RunCommand, clock: Callable[[], float]) -> None:
        self._settings, self._folder, self._run_command, self._clock = settings, folder, run, clock
        self._newest: BackupFile | None = None
        self._failed_epoch_s: int | None = None
        self._fault: str | None = None

    async def run(self) -> None:
        """Back up on schedule, until cancelled; what fails is told and tried again."""
        while True:
            self._newest = await anyio.to_thread.run_sync(newest_in, self._folder)
            left = self._due_in_s()
            if left > 0:
                # In steps: the clock may be set, and somebody may remove the newest.
                await anyio.sleep(min(left, _AGAIN_S))
                continue
            if not await self.back_up():
                await anyio.sleep(_AGAIN_S)

    async def back_up(self) -> bool:
        """Make one backup now; say whether it is there, checked."""
        found = await self._run_command(self._command(), b"", _MOST_S)
        if found.failure is not None:
            self._failed_epoch_s = int(self._clock())
            self._fault = (found.stderr or found.detail or str(found.failure)).strip()[:500]
            _log.error("backup_failed", folder=str(self._folder), fault=self._fault)
            return False
        self._failed_epoch_s = self._fault = None
        self._newest = await anyio.to_thread.run_sync(newest_in, self._folder)
        _log.info("backup_made", folder=str(self._folder), done=found.stdout.decode(errors="replace").strip()[:500])
        return True

    def report(self) -> BackupStatus:
        """Return what `status` shows of backups."""
        settings, newest = self._settings.backup, self._newest
        return BackupStatus(
            folder=str(self._folder),
            every_h=settings.every_h,
            keep=settings.keep,
            last_epoch_s=None if newest is None else newest.made_epoch_s,
            file=None if newest is None else newest.path.name,
            failed_epoch_s=self._failed_epoch_s,
            fault=self._fault,
        )

    def _due_in_s(self) -> float:
        if self._newest is None:
            return 0.0
        every_s = self._settings.backup.every_h * _HOUR_S
        # A backup of the future was made before the clock was set back: it counts as made now.
        return min(self._newest.made_epoch_s + every_s - self._clock(), every_s)

    def _command(self) -> CommandSpec:
        settings = self._settings
        words = ("ledger", "backup", "--rotate", str(settings.backup.keep), "--", str(self._folder))
        return CommandSpec(
            # A broker beside it goes first.
            argv=(*(_GENTLY if shutil.which(_GENTLY[0]) else ()), sys.executable, "-m", "lifebus", *words),
            passing=("LIFEBUS_*", "PYTHONPATH"),
            # Flags of `lifebus up` are in no file and no variable.
            setting={
                "LIFEBUS_RUNTIME_DIR": str(settings.runtime_dir),
                "LIFEBUS_STATE_DIR": str(settings.state_dir),
                "LIFEBUS_LEDGER_PATH": str(settings.ledger_path),
            },
        )
