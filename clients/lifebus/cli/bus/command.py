"""What `serve` and `invoke` share: the command of the command line, and its end when they are told to stop."""

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from lifebus.cli.arguments import UsageError, parse_choice, parse_seconds

if TYPE_CHECKING:
    from anyio import CancelScope

    from lifebus_transports.processes import CommandSpec

_PROTOCOLS: Final = ["oneshot", "jsonl", "msgpack"]
_LONGEST_S: Final = 600

Command = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""One part of the command that follows `--`."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Running:
    """How the command is run and asked."""

    client_id: str | None = None
    "The client id: the program's name unless told."
    protocol: str = "oneshot"
    "oneshot: a fresh child each time; jsonl or msgpack: children that stay."
    deadline: str = "2s"
    "How long an answer may take: 2s unless told."
    env: tuple[str, ...] = ()
    "A further variable that the command gets; NAME* for all that begin so."

    @property
    def seconds(self) -> float:
        """The deadline in seconds.

        Raises:
            UsageError: it is none, or longer than ten minutes.
        """
        seconds = parse_seconds(self.deadline)
        if not 0 < seconds <= _LONGEST_S:
            raise UsageError(f"--deadline: `{self.deadline[:64]}` is not between 1ms and 10m")
        return seconds

    @property
    def kind(self) -> str:
        """The protocol, checked.

        Raises:
            UsageError: there is no such protocol.
        """
        return parse_choice("--protocol", self.protocol, _PROTOCOLS)

    def name_for(self, command: tuple[str, ...]) -> str:
        """Return the client id under which a command is recorded."""
        return self.client_id or Path(command[0]).name


AS_IT_IS: Final = Running()
"""Nothing was asked for."""


def spec_of(command: tuple[str, ...], running: Running) -> "CommandSpec":
    """Return what is to be run, in the caller's directory.

    Raises:
        UsageError: there is no command.
    """
    from lifebus_transports.processes import CommandSpec  # noqa: PLC0415

    if not command or not command[0]:
        raise UsageError("give a command after `--`")
    setting = {"LIFEBUS_CLIENT_ID": running.name_for(command)}
    return CommandSpec(argv=command, passing=(*running.env, "LIFEBUS_*"), setting=setting)


async def cancel_on_signal(scope: "CancelScope") -> None:
    """Cancel when the process is asked to end, so that its children end with it."""
    import anyio  # noqa: PLC0415

    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for _ in signals:
            scope.cancel()
