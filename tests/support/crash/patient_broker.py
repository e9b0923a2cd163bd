"""A broker that answers hooks as late as a test waits; run by ``broker_process`` as its program.

By default a hook that has waited a quarter of a second puts its call aside, and no client is asked about such a call.
"""

import sys

from lifebus_supervisor.hook_intake import intake
from lifebus_transports.hooks.server import HookServerLimits
from support.broker_process import main
from support.patience import PATIENCE_S


def patient_limits(answer_s: float) -> HookServerLimits:
    """Return the limits of a server that waits instead of giving up."""
    return HookServerLimits(answer_s=PATIENCE_S, handle_s=PATIENCE_S)


intake.HookServerLimits = patient_limits  # type: ignore[misc, assignment]

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
