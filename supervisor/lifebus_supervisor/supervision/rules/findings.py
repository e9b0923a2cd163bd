"""What supervision finds of a session and is to be recorded.  Pure."""

from typing import Any, Final

from msgspec import Struct

from lifebus_broker.state.session_state import OpenFrame
from lifebus_contract import Degradation, IntegrationMode, LifecycleEvent

GRACE_TICKS: Final = 2
"""How many ticks a hook may lag behind a file that reports the same, and a session's end behind its process's."""


class Moment(Struct, frozen=True, kw_only=True):
    """When an evaluation is made: the tick's number, monotonic seconds, and wall-clock seconds, which are data only.

    `milliseconds` are those of the wall clock beyond its whole seconds.
    """

    tick: int
    monotonic_s: float
    epoch_s: int
    milliseconds: int = 0

    @property
    def epoch_ms(self) -> int:
        """The wall-clock time in milliseconds."""
        return self.epoch_s * 1000 + self.milliseconds


class SupervisionFinding(Struct, frozen=True, kw_only=True):
    """A fact that is to be recorded.

    `frame` is the frame it is about, `key` what makes it the same fact when it is found again; `metadata` goes to
    callback clients and not into receipts.  `mode` is set where a hook announced it; else it is that of supervision.
    """

    event: LifecycleEvent
    telemetry: dict[str, Any]
    frame: OpenFrame | None = None
    key: str | None = None
    degradations: tuple[Degradation, ...] = ()
    metadata: dict[str, Any] = {}
    mode: IntegrationMode | None = None


def tick_finding(**facts: Any) -> SupervisionFinding:
    """Return a tick with the given facts; None values are left out."""
    known = {name: value for name, value in facts.items() if value is not None}
    return SupervisionFinding(event=LifecycleEvent.SUPERVISOR_TICK, telemetry=known)
