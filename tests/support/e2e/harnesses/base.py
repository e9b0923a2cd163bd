"""What the tests need to know of a harness: its packages, its settings, its command lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from support.e2e.programs import Package
from support.e2e.sandbox import Ran, Sandbox


@dataclass(frozen=True)
class Turn:
    """One run of the program: a prompt, the session to go on with, and further arguments."""

    prompt: str
    session: str | None = None
    arguments: tuple[str, ...] = ()


class Harness(Protocol):
    """A real program."""

    @property
    def adapter_id(self) -> str: ...
    @property
    def packages(self) -> Sequence[Package]: ...
    @property
    def program(self) -> Path:
        """The installed program."""
        ...

    @property
    def more_path(self) -> tuple[str, ...]:
        """Directories of other programs that it needs."""
        ...

    @property
    def context_window(self) -> int:
        """The window that the fake model is said to have, in tokens."""
        ...

    @property
    def trusting(self) -> tuple[str, ...]:
        """Arguments with which it runs hooks that nobody has trusted."""
        ...

    def furnish(self, box: Sandbox, model_url: str) -> None:
        """Write the program's own settings, without any hook."""
        ...

    def environment(self, box: Sandbox, model_url: str) -> dict[str, str]:
        """Return the variables that the program needs beside the sandbox's own."""
        ...

    def command(self, turn: Turn) -> list[str]:
        """Return the command line of one run."""
        ...

    def hook_failures(self, ran: Ran) -> list[str]:
        """Return what the program says of hooks that failed, where it says anything."""
        ...
