"""Child processes as clients: started from argument lists, asked over their streams, always ended.

Above: the daemon, `lifebus serve`, `lifebus invoke`.  Below: the contract, anyio, msgpack.
"""

from lifebus_transports.commands.once import Commands, Run
from lifebus_transports.commands.spec import CommandSpec
from lifebus_transports.commands.verdicts import Failure, Finished

__all__ = ["CommandSpec", "Commands", "Failure", "Finished", "Run"]
