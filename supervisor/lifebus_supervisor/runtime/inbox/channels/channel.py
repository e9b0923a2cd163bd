"""What a channel is, and how it fails."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from lifebus_supervisor.runtime.inbox.messages import QuestionMessage
from lifebus_transports.processes.outcomes import Finished
from lifebus_transports.processes.spec import CommandSpec


class DeliveryFault(Exception):
    """A message was not delivered; `detail` says why, without a secret.

    `retry_after_ms` is the pause that the receiver asks for.
    """

    def __init__(self, detail: str, *, retry_after_ms: int = 0) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after_ms = retry_after_ms


class QuestionChannel(Protocol):
    """Brings messages to people."""

    @property
    def takes_end(self) -> bool:
        """Whether it is for it to know that a question was answered or withdrawn."""
        ...

    async def deliver(self, message: QuestionMessage) -> None:
        """Return when the message has arrived; it may be delivered again, with the same id.

        Raises:
            DeliveryFault: it has not, or nobody knows.
        """
        ...


class CommandOnce(Protocol):
    """Runs a command once (`processes.Commands.run_once`)."""

    def __call__(
        self, spec: CommandSpec, stdin: bytes, seconds: float, /, bodies: Sequence[str] = ()
    ) -> Awaitable[Finished]:
        """Return how it ended; `bodies` are texts that must not stand in what is kept of stderr."""
        ...
