"""Events on their way to handlers: in a bounded queue, in order within a lane, some lanes at once.

Whoever reports an event never waits.  What does not fit is counted, logged, and told to the handlers of
``extensions.events_lost``.
"""

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus_contract.extensions import EmitResult, RuntimeEvent

MAX_WAITING: Final = 1_024
"""Most events that wait."""

MAX_WAITING_BYTES: Final = 16 * 1_048_576
"""Most bytes of what the events that wait are made from."""

MAX_LANES: Final = 4
"""Most passes at once."""

EVENTS_LOST: Final = "extensions.events_lost"
"""The event that says how many others were lost: its payload is ``{"count": N}``."""

_log = structlog.get_logger("lifebus.extensions")

RunPass = Callable[[RuntimeEvent], Awaitable[list[EmitResult]]]

Done = Callable[[list[EmitResult]], None]
"""Called with the results of a pass, or with none where its event was lost."""


class _Waiting(Struct, frozen=True):
    make: Callable[[], RuntimeEvent]
    size: int
    done: Done | None


class EventQueue:
    """Runs passes.  `lost` counts events that did not fit, `passes` those that were run."""

    def __init__(self, run_pass: RunPass, clock: Callable[[], str]) -> None:
        self.lost = self.passes = 0
        self._run_pass, self._clock = run_pass, clock
        self._lanes: OrderedDict[str, deque[_Waiting]] = OrderedDict()
        self._busy: set[str] = set()
        self._waiting = self._bytes = 0
        self._unreported = 0
        self._work = anyio.Event()

    def submit(self, lane: str, make: Callable[[], RuntimeEvent], size: int = 0, done: Done | None = None) -> bool:
        """Take an event of a lane, made when its turn comes; return False where there is no room for it.

        A lane is what has an order of its own: a session, a thread, a project.  `size` is that of what the event is
        made from, in bytes.
        """
        if self._waiting >= MAX_WAITING or self._bytes + size > MAX_WAITING_BYTES:
            self.lost += 1
            self._unreported += 1
            _log.warning("extension_event_lost", lane=lane, lost=self.lost)
            self._work.set()
            return False
        self._lanes.setdefault(lane, deque()).append(_Waiting(make, size, done))
        self._waiting += 1
        self._bytes += size
        self._work.set()
        return True

    @property
    def is_idle(self) -> bool:
        """Whether no event waits and no pass runs."""
        return not self._waiting and not self._busy

    async def run(self) -> None:
        """Run passes until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                self._work = anyio.Event()
                self._start_passes(tasks)
                await self._work.wait()

    def _start_passes(self, tasks: TaskGroup) -> None:
        for lane in [lane for lane in self._lanes if lane not in self._busy]:
            if len(self._busy) >= MAX_LANES:
                return
            self._busy.add(lane)
            tasks.start_soon(self._serve, lane)

    async def _serve(self, lane: str) -> None:
        """Run the next pass of a lane; others get their turn before its next one."""
        one = self._lanes[lane].popleft()
        self._waiting -= 1
        self._bytes -= one.size
        if not self._lanes[lane]:
            del self._lanes[lane]
        else:
            self._lanes.move_to_end(lane)
        results: list[EmitResult] = []
        try:
            results = await self._run_pass(one.make())
            self.passes += 1
            await self._report_loss()
        except Exception:  # noqa: BLE001  a defect of ours costs this pass, not those behind it
            _log.exception("extension_pass_failed")
        finally:
            self._busy.discard(lane)
            self._work.set()
        if one.done is not None:
            one.done(results)

    async def _report_loss(self) -> None:
        """Tell handlers that events were lost, once there is room again."""
        if self._unreported and self._waiting < MAX_WAITING // 2:
            count, self._unreported = self._unreported, 0
            await self._run_pass(RuntimeEvent(type=EVENTS_LOST, payload={"count": count}, emitted_at=self._clock()))
