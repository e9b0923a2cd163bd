"""Enforce retention beside a broker: measure age and size now and then, and have the ledger drop what is too much."""

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
_MEASURE_S: Final = 2.0
_GROWN: Final = 20
"""A file that grew by a twentieth of its limit since it was measured is measured again."""

_log = structlog.get_logger("lifebus.retention")


class RetentionTask:
    """Keeps a ledger within its limits.

    `base_at` returns the dump of the stores after a receipt, which stands for all that are dropped up to there.
    `consumers_affected` returns the names of the consumers that had not settled all that was dropped.
    `retention_clock` returns the time by which receipts are too old.
    """

    def __init__(
        self,
        settings: RetentionSettings,
        ledger: Ledger,
        *,
        base_at: Callable[[int], Awaitable[bytes]],
        consumers_affected: Callable[[], Awaitable[Sequence[str]]],
        retention_clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._ledger = settings, ledger
        self._base_at, self._consumers_affected, self._clock = base_at, consumers_affected, retention_clock
        self._bytes = 0
        self._forget_at = 0.0
        self._last: PruneStatus | None = None

    async def run(self) -> None:
        """Enforce the limits now and then again and again, until cancelled."""
        while True:
            await self.enforce()
            await self._wait()

    async def enforce(self) -> PruneDecision | None:
        """Drop what is too old or too much; return what was decided.

        What cannot be done now, because the disk or the ledger does not let it, is logged and tried next time.
        """
        self._bytes = await self._ledger.usage()
        now = int(self._clock())
        try:
            decision = await self._ledger.plan_prune(limits_of(self._settings), now)
            if decision is not None:
                await self._prune(decision, now)
            await self._forget_keys(now)
        except LifebusError as fault:
            _log.warning("retention_failed", fault=type(fault).__name__, detail=str(fault)[:200])
            return None
        return decision

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
        done = await self._prune(PruneDecision(body.through, "operator"), int(self._clock()))
        return PruneAnswer(before=before, floor=done.until, consumers=done.consumers)

    def report(self) -> RetentionStatus:
        """Return what `status` shows of retention."""
        settings = self._settings
        return RetentionStatus(
            keep_days=settings.keep_days,
            keep_mb=settings.keep_mb,
            dedupe_days=settings.dedupe_days,
            bytes=self._bytes,
            last=self._last,
        )

    async def _prune(self, decision: PruneDecision, now: int) -> PruneStatus:
        after = self._ledger.status().floor
        # the base first: once the receipts are gone, nobody can compute it any more
        until = await self._ledger.prune(decision.floor, await self._base_at(decision.floor))
        consumers = tuple(await self._consumers_affected())
        self._last = PruneStatus(at_epoch_s=now, reason=decision.reason, after=after, until=until, consumers=consumers)
        _log.info("receipts_dropped", reason=decision.reason, after=after, until=until, consumers=list(consumers))
        return self._last

    async def _forget_keys(self, now: int) -> None:
        """Once an hour, forget the keys of receipts that were dropped long enough ago."""
        # seldom: expiring reads the whole table of tombstones
        due = self._settings.dedupe_days and anyio.current_time() >= self._forget_at
        if due:
            await self._ledger.expire(now - self._settings.dedupe_days * _DAY_S)
            self._forget_at = anyio.current_time() + _HOUR_S

    async def _wait(self) -> None:
        """Wait until the next check is due, the ledger has grown fast, or there is no room left."""
        end = anyio.current_time() + self._settings.check_s
        most = self._bytes + max(self._settings.keep_mb * _MIB // _GROWN, _MIB)
        while (left := end - anyio.current_time()) > 0:
            await anyio.sleep(min(left, _MEASURE_S))
            # a burst of receipts may exceed the limit long before the next check is due
            grown = await self._ledger.usage() > most
            if grown or not self._ledger.status().writable:
                return


def limits_of(settings: RetentionSettings) -> Limits:
    """Return the limits that the settings name; 0 is none."""
    return Limits(
        keep_s=settings.keep_days * _DAY_S or None,
        keep_bytes=settings.keep_mb * _MIB or None,
    )
