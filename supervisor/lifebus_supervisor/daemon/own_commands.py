"""Commands of lifebus that a broker runs beside itself, each in a process of its own.

What they need (the installer, harnesses' settings, checks that block) never comes into the broker's process, and one
that hangs is ended.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import anyio

from lifebus_contract import BrokerBusy, InvalidRequest, load_json
from lifebus_supervisor.configuration.resolution import variable_of
from lifebus_supervisor.configuration.settings import Settings
from lifebus_transports.processes.outcomes import Failure, Finished, bad_answer, fault_of
from lifebus_transports.processes.spec import CommandSpec

COMMAND: Final = (sys.executable, "-P", "-m", "lifebus")
"""The command line; `-P` keeps a folder called lifebus, wherever it is started, from taking the package's place."""

REPORTS: Final[Mapping[str, tuple[str, ...]]] = {
    "doctor": ("doctor", "--json"),
    "hooks": ("hooks", "status", "--json"),
}
"""The reports that can be asked for, and the command that makes each."""

_REPORT_S: Final = 60.0
_MOST_WAITING: Final = 4

_RunOnce = Callable[[CommandSpec, bytes, float], Awaitable[Finished]]


def own_command(settings: Settings, words: tuple[str, ...]) -> CommandSpec:
    """Return a command of lifebus that finds the broker of these settings, with the broker's own environment."""
    ledger = settings.ledger_location.file
    places = {
        "runtime_dir": str(settings.runtime_dir),
        "state_dir": str(settings.state_dir),
        "ledger.backend": settings.ledger.backend,
        **({} if ledger is None else {"ledger.path": str(ledger)}),
    }
    setting = {variable_of(key): value for key, value in places.items()}
    return CommandSpec(argv=(*COMMAND, *words), passing=("*",), setting=setting, cwd="/")


class CommandReports:
    """Makes reports by running commands, one at a time; `run_once` runs one."""

    def __init__(self, settings: Settings, run_once: _RunOnce) -> None:
        self._settings = settings
        self._run_once = run_once
        # One at a time: each takes a second of a processor.
        self._turn = anyio.Semaphore(1)

    async def __call__(self, name: str, /) -> bytes:
        """Return a report as JSON.

        Raises:
            LifebusError: the command failed or wrote no JSON; `busy` where too many wait.
        """
        if self._turn.statistics().tasks_waiting >= _MOST_WAITING:
            raise BrokerBusy("other reports are made; ask again", code="busy")
        async with self._turn:
            finished = await self._run_once(own_command(self._settings, REPORTS[name]), b"", _REPORT_S)
        # Exit code 1 says that something is wrong on this machine, which is what the report is for.
        if finished.failure is not None and not (finished.failure is Failure.EXIT_CODE and finished.exit_code == 1):
            raise fault_of(finished)
        try:
            load_json(finished.stdout)
        except InvalidRequest as fault:
            raise bad_answer(fault) from None
        return finished.stdout
