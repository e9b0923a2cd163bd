"""What supervision needs from outside: telemetry files, clocks, processes, and how long it is to wait for each."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from msgspec import Struct

from lifebus_adapters.adapter import CallerProcess
from lifebus_broker.durations import Durations
from lifebus_broker.ports import StoredReceipt
from lifebus_broker.state.degradation import SilenceLimits
from lifebus_broker.state.pressure import Thresholds
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.tailing.events import FileUpdate, TailedFile


class DeferredRecorder(Protocol):
    """Records facts that wait for hooks (lifebus_supervisor.app_server.recorder); returns the receipts.

    Whoever calls holds the supervisor's lock.
    """

    async def record_due(self, tick: int) -> tuple[StoredReceipt, ...]:
        """Record what can wait no longer at the end of the tick of a number."""
        ...

    async def record_held_back(self, monitor: SessionMonitor) -> tuple[StoredReceipt, ...]:
        """Record what no hook has reported of a session that is over."""
        ...


class NothingDeferred:
    """Stands for the recorder as long as no app-server has reported anything: then nothing waits for hooks."""

    async def record_due(self, tick: int) -> tuple[StoredReceipt, ...]:  # noqa: ARG002  as the protocol has it
        """Record nothing."""
        return ()

    async def record_held_back(self, monitor: SessionMonitor) -> tuple[StoredReceipt, ...]:  # noqa: ARG002
        """Record nothing."""
        return ()


class TelemetryTail(Protocol):
    """Reads telemetry files as they grow (lifebus_supervisor.tailing.tailer)."""

    def follow(self, adapter_id: str, session: str, path: str) -> bool:
        """Read the file that a hook named; False when it is no telemetry file of the adapter."""
        ...

    def forget(self, adapter_id: str, session: str) -> None:
        """Stop reading a session's files."""
        ...

    async def poll(self) -> Sequence[FileUpdate]:
        """Return what is new in every file, and every standing problem."""
        ...

    async def poll_session(self, adapter_id: str, session: str, within_s: float) -> Sequence[FileUpdate]:
        """Return what is new of one session; what does not answer in time is left to the next poll."""
        ...

    def files(self) -> Sequence[TailedFile]:
        """Return how each file is."""
        ...

    def changes(self) -> AsyncIterator[None]:
        """Yield when files may have changed; a hint, and no more."""
        ...


class SupervisorLimits(Struct, frozen=True, kw_only=True):
    """Thresholds and silence limits; `interval_s` is the time between two ticks.

    `abandon_s` is how long a session whose process is unknown may be silent before it counts as over, `idle_s` the
    same for one that is known by its telemetry alone, after its last turn; `settle_s` is how long an announced end
    waits for a sign of life before it is recorded.
    """

    interval_s: float = 2.0
    thresholds: Thresholds = Thresholds()
    silence: SilenceLimits = SilenceLimits()
    abandon_s: int = 86_400
    idle_s: int = 600
    settle_s: float = 1.0


class Environment(Struct, frozen=True, kw_only=True):
    """The clocks in seconds, the processes, and the installed hooks.

    `now` is monotonic, `epoch` the wall clock.  `is_alive` says whether a process lives, `hooks_installed` whether an
    adapter's hooks are installed, `hooks_distrusted` in a few words why its harness does not run them.  `ticks` counts
    how long ticks take, by the clock `now`.
    """

    now: Callable[[], float]
    epoch: Callable[[], float]
    ticks: Durations
    # Compares the start time as well: process ids are used again.
    is_alive: Callable[[CallerProcess], bool]
    hooks_installed: Callable[[str], bool] = lambda _: False
    hooks_distrusted: Callable[[str], str | None] = lambda _: None

    def hooks_expected(self, adapter_id: str) -> bool:
        """Whether hooks of an adapter are installed and nothing is known that keeps its harness from running them."""
        return self.hooks_installed(adapter_id) and self.hooks_distrusted(adapter_id) is None
