"""What is remembered of extensions in the journal: which contents are trusted, and who changed what."""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
import structlog
from msgspec import Struct

from lifebus_broker.ledger.records import append_records, pages_of
from lifebus_broker.ports import Journal, NewRecord
from lifebus_contract import InternalError, LifebusError
from lifebus_contract.extensions import AuditRecord

TRUST_STREAM: Final = "extension-trust"
AUDIT_STREAM: Final = "extension-audit"
MAX_AUDIT: Final = 1_000
"""Most records of the audit; beyond that the oldest go."""

T = TypeVar("T")

_TRIM: Final = 100
_log = structlog.get_logger("lifebus.extensions")


class TrustRecord(Struct, frozen=True, kw_only=True):
    """Contents that somebody trusts, by the name of their extension; the newest record of a name counts."""

    module_name: str
    content_hash: str
    path: str
    actor_id: str | None
    at: str


class TrustStore:
    """The contents that are trusted."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._hashes: dict[str, str] = {}

    async def open(self) -> None:
        """Read what is recorded.

        Raises:
            LifebusError: the journal cannot be read, or holds what this program does not know.
        """
        async for page in pages_of(self._journal, TRUST_STREAM):
            for record in page.records:
                self._take(_decode(record.body, TrustRecord))

    @property
    def hashes(self) -> Mapping[str, str]:
        """The trusted hash of each name."""
        return dict(self._hashes)

    async def record(self, record: TrustRecord) -> None:
        """Trust contents; return when that is durable.

        Raises:
            LifebusError: nothing was recorded.
        """
        await append_records(self._journal, [NewRecord(TRUST_STREAM, msgspec.json.encode(record))])
        self._take(record)

    def _take(self, record: TrustRecord) -> None:
        self._hashes[record.module_name] = record.content_hash


class AuditLog:
    """Who loaded, trusted and was refused."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def record(self, record: AuditRecord) -> None:
        """Write a record down, and drop the oldest where there are too many.

        Raises:
            LifebusError: nothing was recorded.
        """
        written = await append_records(self._journal, [NewRecord(AUDIT_STREAM, msgspec.json.encode(record))])
        number = written[0].number
        if number % _TRIM == 0 and number > MAX_AUDIT:
            try:
                await self._journal.drop(AUDIT_STREAM, number - MAX_AUDIT)
            except LifebusError as fault:  # the record itself is durable
                _log.warning("extension_audit_not_trimmed", detail=fault.detail)

    async def read(self, after: int, limit: int) -> tuple[list[AuditRecord], bool]:
        """Return records behind a number, oldest first, and whether these are all.

        Raises:
            LifebusError: the journal cannot be read.
        """
        page = await self._journal.read(AUDIT_STREAM, after, limit, 131_072)
        found = [
            msgspec.structs.replace(_decode(record.body, AuditRecord), number=record.number) for record in page.records
        ]
        return found, page.complete


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as fault:
        why = f"a record of extensions cannot be read: {fault}; did a newer lifebus write it?"
        raise InternalError(why, code="ledger_damaged") from None
