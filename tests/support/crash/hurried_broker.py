"""A broker that waits less long for app-servers that are gone; run by ``broker_process`` as its program."""

import sys

from lifebus_supervisor.worker_turns import runner
from support.broker_process import main

runner.LOOK_S, runner.RETURN_S, runner.SETTLE_S = 0.5, 4.0, 4.0  # type: ignore[misc]

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
