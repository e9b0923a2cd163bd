"""Retention at work: looks at age and size now and then, and has the ledger drop what need not be kept."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio
import structlog

from lifebus_broker.ledger.retention import Limits, PruneDecision
from lifebus_broker.ports import Ledger
from lifebus_contract import InvalidRequest, LifebusError
from lifebus_supervisor.configuration.settings import RetentionSettings
from lifebus_transports.messages.ledger import Prune, PruneAnswer
from lifebus_transports.messages.state import PruneStatus, RetentionStatus

_MIB: Final = 1_048_576
_DAY_S: Final = 86_400
_HOUR_S: Final = 3_600
_GLANCE_S: Final = 2.0
_GROWN: Final = 20
"""A file that grew by a twentieth of its limit since the last look is looked at again."""

_log = structlog.get_logger("lifebus.retention")


class RetentionTask:
    """Keeps a ledger within its limits.

    `base_at` returns the dump of the stores after a receipt, which stands for all that are dropped up to there.
    `losers` names the named consumers that lost something because it was dropped before they had settled it.
    `clock` tells the time by which receipts are too old.
    """

    def __init__(
        self,
        settings: RetentionSettings,
        ledger: Ledger,
        *,
        base_at: Callable[[int], Awaitable[bytes]],
        losers: Callable[[], Awaitable[Sequence[str]]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._ledger = settings, ledger
        self._base_at, self._losers, self._clock = base_at, losers, clock
        self._bytes = 0
        self._forget_at = 0.0
        self._last: PruneStatus | None = None

    async def run(self) -> None:
        """Look at once and then again and again, until cancelled."""
        while True:
            await self.look()
            await self._wait()

    async def look(self) -> PruneDecision | None:
        """Drop what is too old or too much; return what was cut.

        What cannot be done now, because the disk or the ledger does not let it, is logged and tried at the next look.
        """
        self._bytes = await self._ledger.usage()
        now = int(self._clock())
        try:
            cut = await self._ledger.plan_prune(limits_of(self._settings), now)
            if cut is not None:
                await self._cut(cut, now)
            await self._forget_keys(now)
        except LifebusError as fault:
            _log.warning("retention_failed", fault=type(fault).__name__, detail=str(fault)[:200])
            return None
        return cut

    async def prune(self, body: Prune) -> PruneAnswer:
        """Drop what an operator names; serves the verb `prune`.

        Raises:
            InvalidRequest: there is no receipt at that position yet.
            LifebusError: the ledger is closed, its log is broken, or its disk takes no writes now.
        """
        before, head = self._ledger.status().floor, self._ledger.head
        if body.through > head:
            raise InvalidRequest(f"there is no receipt {body.through} yet; the newest is {head}", code="no_position")
        if body.through <= before:
            return PruneAnswer(before=before, floor=before)
        done = await self._cut(PruneDecision(body.through, "operator"), int(self._clock()))
        return PruneAnswer(before=before, floor=done.until, consumers=done.consumers)

    def report(self) -> RetentionStatus:
        """Return what `status` tells of retention."""
        settings = self._settings
        return RetentionStatus(
            keep_days=settings.keep_days,
            keep_mb=settings.keep_mb,
            dedupe_days=settings.dedupe_days,
            bytes=self._bytes,
            last=self._last,
        )

    async def _cut(self, cut: PruneDecision, now: int) -> PruneStatus:
        after = self._ledger.status().floor
        until = await self._ledger.prune(cut.floor, await self._base_at(cut.floor))
        consumers = tuple(await self._losers())
        self._last = PruneStatus(at_epoch_s=now, reason=cut.reason, after=after, until=until, consumers=consumers)
        _log.info("receipts_dropped", reason=cut.reason, after=after, until=until, consumers=list(consumers))
        return self._last

    async def _forget_keys(self, now: int) -> None:
        """Once an hour, forget the keys of receipts that were dropped long enough ago."""
        due = self._settings.dedupe_days and anyio.current_time() >= self._forget_at
        if due:
            await self._ledger.expire(now - self._settings.dedupe_days * _DAY_S)
            self._forget_at = anyio.current_time() + _HOUR_S

    async def _wait(self) -> None:
        """Wait until the next look is due, the files have grown fast, or there is no room left."""
        end = anyio.current_time() + self._settings.check_s
        most = self._bytes + max(self._settings.keep_mb * _MIB // _GROWN, _MIB)
        while (left := end - anyio.current_time()) > 0:
            await anyio.sleep(min(left, _GLANCE_S))
            grown = await self._ledger.usage() > most
            if grown or not self._ledger.status().writable:
                return


def limits_of(settings: RetentionSettings) -> Limits:
    """Return the limits that the settings name; 0 is none."""
    return Limits(
        keep_s=settings.keep_days * _DAY_S or None,
        keep_bytes=settings.keep_mb * _MIB or None,
    )
