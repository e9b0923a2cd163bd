"""Child processes as clients: started from argument lists, asked over their streams, always ended."""

from lifebus_transports.processes.once import Commands, Run
from lifebus_transports.processes.outcomes import Failure, Finished
from lifebus_transports.processes.spec import CommandSpec

__all__ = ["CommandSpec", "Commands", "Failure", "Finished", "Run"]
