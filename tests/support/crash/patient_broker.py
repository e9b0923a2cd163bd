"""A broker that gives hooks and phases as long as a test waits; run by ``broker_process`` as its program.

By default a hook that has waited a quarter of a second puts its call aside, and no client is asked about such a call.
At a stop the end of a phase is recorded if what it made is read within a second; else the phase runs again.
"""

import sys

from anyio.abc import TaskGroup

from lifebus_supervisor.hook_intake.intake import HookIntake
from lifebus_supervisor.runtime import tries
from lifebus_transports.hooks.server import HookServerLimits
from support.broker_process import main
from support.patience import PATIENCE_S

open_intake = HookIntake.open


async def open_patiently(self: HookIntake, tasks: TaskGroup) -> None:
    """Open as always, with a server that waits instead of giving up."""
    self._limits = HookServerLimits(answer_s=PATIENCE_S, handle_s=PATIENCE_S)
    await open_intake(self, tasks)


HookIntake.open = open_patiently  # type: ignore[method-assign]
tries._FINISHING_S = PATIENCE_S  # type: ignore[misc]

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
