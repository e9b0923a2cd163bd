"""What supervision needs from outside: files to watch, clocks, processes, and how patient it is to be."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from msgspec import Struct

from lifebus_adapters.adapter import CallerProcess
from lifebus_broker.ports import StoredReceipt
from lifebus_broker.state.degradation import SilenceLimits
from lifebus_broker.state.pressure import Thresholds
from lifebus_supervisor.tailing.events import Found, WatchedFile


class Watching(Protocol):
    """Someone who watches telemetry files (lifebus_supervisor.tailing.watcher)."""

    def follow(self, adapter_id: str, session: str, path: str) -> bool:
        """Watch the file that a hook named; False when it is no telemetry file of the adapter."""
        ...

    def forget(self, adapter_id: str, session: str) -> None:
        """Stop watching a session's files."""
        ...

    async def poll(self) -> Sequence[Found]:
        """Return the news of every file, and every standing problem."""
        ...

    def files(self) -> Sequence[WatchedFile]:
        """Return how each watched file is."""
        ...

    def changes(self) -> AsyncIterator[None]:
        """Wake up when files may have changed; a hint, and no more."""
        ...


class Companion(Protocol):
    """Someone who decides about sessions beside supervision (lifebus_supervisor.app_server)."""

    async def settle(self, tick: int) -> tuple[StoredReceipt, ...]:
        """Record what can wait no longer, at the end of a tick; return the rows.  The supervisor's lock is held."""
        ...


class SupervisorLimits(Struct, frozen=True, kw_only=True):
    """Thresholds and silence limits; `interval_s` is the time between two ticks."""

    interval_s: float = 2.0
    thresholds: Thresholds = Thresholds()
    silence: SilenceLimits = SilenceLimits()
    abandon_s: int = 86_400


class Environment(Struct, frozen=True, kw_only=True):
    """What supervision asks of the world: clocks in seconds, processes, and whether hooks are installed.

    `now` is monotonic, `epoch` the wall clock.  `is_alive` says whether a process lives, `hooks_installed` whether an
    adapter's hooks are installed.
    """

    now: Callable[[], float]
    epoch: Callable[[], float]
    is_alive: Callable[[CallerProcess], bool]
    hooks_installed: Callable[[str], bool] = lambda _: False
