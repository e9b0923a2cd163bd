"""The idempotency keys of actions in the journal: found, begun, settled, freed, forgotten when they are many."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import structlog

from lifebus_broker.ledger.records import append_records, find_stream
from lifebus_broker.ports import Journal, NewRecord
from lifebus_contract import InternalError
from lifebus_contract.extensions import ActionOutcome
from lifebus_supervisor.actions.records import (
    ORDER,
    ActionBegun,
    ActionFreed,
    ActionRecord,
    ActionSettled,
    KeyState,
    decode_record,
    encode_record,
    reduce_key,
    stream_of,
)

KEEP: Final = 10_000
"""About so many keys are kept with their outcomes; of an older one is known that it was used."""

_MANY_RECORDS: Final = 32
_PAGE: Final = 256

_log = structlog.get_logger("lifebus.actions")


class KeyUse(msgspec.Struct, frozen=True, kw_only=True):
    """A request under a key: the digests of both, and who asks for what."""

    digest: str
    signature: str
    action_type: str
    requested_by: str


class KeyLookup(msgspec.Struct, frozen=True):
    """What is known of a key.  `head` is the number of its newest record, `is_forgotten` says that none is kept."""

    state: KeyState | None
    head: int
    is_forgotten: bool = False


class ActionKeys:
    """The keys of a broker; nothing of them is in memory.  `now_ms` is the wall clock."""

    def __init__(self, journal: Journal, now_ms: Callable[[], int], keep: int = KEEP) -> None:
        self._journal, self._now_ms, self._keep = journal, now_ms, keep
        self._unchecked = keep  # the first new key looks after what the broker before left
        self._is_forgetting = False

    async def find(self, digest: str) -> KeyLookup:
        """Return what is known of a key.

        Raises:
            LifebusError: the journal cannot be read, or holds records that this program does not know.
        """
        page = await self._journal.read(stream_of(digest))
        records: list[ActionRecord] = []
        try:
            while True:
                records += [decode_record(one.body) for one in page.records]
                if page.complete or not page.records:
                    break
                page = await self._journal.read(stream_of(digest), page.records[-1].number)
        except msgspec.DecodeError as fault:
            raise InternalError(f"the records of an action cannot be read: {fault}", code="ledger_damaged") from fault
        return KeyLookup(reduce_key(records), page.head, is_forgotten=page.head > 0 and not records)

    async def begin(self, use: KeyUse, head: int, asked: str | None = None) -> None:
        """Record that an action is being done, and who is asked to do it.

        Raises:
            LifebusError: it was not recorded.
        """
        begun = ActionBegun(
            at_ms=self._now_ms(),
            signature=use.signature,
            action_type=use.action_type,
            requested_by=use.requested_by,
            asked=asked,
        )
        await append_records(self._journal, self._records(use, begun, head))

    def settled(self, use: KeyUse, outcome: ActionOutcome, head: int) -> list[NewRecord]:
        """Return the records by which a key stands for an outcome; `head` is 0 where it has none yet."""
        record = ActionSettled(
            at_ms=self._now_ms(),
            signature=use.signature,
            action_type=use.action_type,
            requested_by=use.requested_by,
            outcome=outcome,
        )
        return self._records(use, record, head)

    async def write(self, records: Sequence[NewRecord]) -> None:
        """Append records.

        Raises:
            LifebusError: none was written.
        """
        await append_records(self._journal, records)

    async def free(self, use: KeyUse, head: int) -> None:
        """Record that the action was not done; what a key has much of is dropped first.

        Raises:
            LifebusError: it was not recorded.
        """
        written = await append_records(self._journal, self._records(use, ActionFreed(at_ms=self._now_ms()), head))
        if written[0].number >= _MANY_RECORDS:
            await self._journal.drop(stream_of(use.digest), written[0].number - 1)

    async def forget_oldest(self, in_use: Callable[[str], bool]) -> None:
        """Drop what is kept of the oldest keys, once enough new ones came; that a key was used stays known.

        Raises:
            LifebusError: the journal cannot be read, or takes no writes now.
        """
        self._unchecked += 1
        if self._is_forgetting or self._unchecked <= self._keep // 8:
            return
        self._is_forgetting, self._unchecked = True, 0
        try:
            await self._forget(in_use)
        finally:
            self._is_forgetting = False

    async def _forget(self, in_use: Callable[[str], bool]) -> None:
        order = await find_stream(self._journal, ORDER)
        if order is None:
            return
        excess, dropped = order.head - order.floor - self._keep, 0
        while excess > 0:
            page = await self._journal.read(ORDER, order.floor + dropped, min(excess, _PAGE))
            digests = [one.body.hex() for one in page.records]
            if not digests or any(map(in_use, digests)):
                return
            for digest in digests:
                await self._journal.drop(stream_of(digest), 2**53 - 1)
            # Behind the keys: where the broker dies in between, they are dropped again.
            await self._journal.drop(ORDER, page.records[-1].number)
            dropped, excess = dropped + len(digests), excess - len(digests)
        _log.debug("action_keys_forgotten", count=dropped)

    @staticmethod
    def _records(use: KeyUse, record: ActionRecord, head: int) -> list[NewRecord]:
        own = NewRecord(stream_of(use.digest), encode_record(record))
        return [own] if head else [own, NewRecord(ORDER, bytes.fromhex(use.digest))]
