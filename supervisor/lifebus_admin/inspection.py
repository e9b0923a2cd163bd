"""Questions that need no running broker: about a ledger file, the configured adapters, a document."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from msgspec import Struct

from lifebus_broker.claims import RENEWAL, claim_of, explain_lack
from lifebus_broker.ledger.retention import is_short
from lifebus_broker.ledger.sqlite.checks.sound_rows import DamagedRow
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.errors import read_errors, unreadable, user_errors
from lifebus_broker.ledger.sqlite.reader import Reader
from lifebus_broker.ledger.sqlite.schema import check_library, library_version
from lifebus_broker.ledger.sqlite.transfer.rescue import rescue_rows
from lifebus_broker.ports import DamagedReceipt, Page, Query
from lifebus_broker.routing.negotiation import negotiate
from lifebus_broker.routing.payload_validation import check_each
from lifebus_contract import (
    CAPABILITIES,
    CallbackResponse,
    CapabilityRequest,
    DispatchEnvelope,
    Emission,
    InvalidRequest,
    Negotiation,
    PayloadEnvelope,
    RegisteredAdapter,
)
from lifebus_contract.fields import Document
from lifebus_supervisor.api.queries import query_of
from lifebus_supervisor.configuration.adapters import configured_adapters
from lifebus_supervisor.configuration.settings import Settings
from lifebus_transports.messages.reads import Backfill

_MIB: Final = 1_048_576
_LEAST_ROOM: Final = 4_096


def check_libraries() -> str:
    """Return the version of SQLite.

    Raises:
        LifebusError: it is one that can damage a ledger.
    """
    version = library_version()
    check_library(version)
    return version


def sqlite_version() -> str:
    """Return the version of SQLite, whatever it is worth."""
    return library_version()


def verify_file(path: Path, tail: int | None = None) -> tuple[int, list[str]]:
    """Return the newest position of a ledger file, and what is wrong with it; nothing is written.

    Raises:
        LifebusError: it cannot be read.
    """
    with read_errors(path):
        with closing(Reader(_existing(path))) as reader:
            head = reader.page(Query(after=2**53 - 1, limit=1)).head
        return head, verify(path, tail)


def receipts_of_file(path: Path, query: Backfill) -> Iterator[bytes]:
    """Yield the canonical receipts of a ledger file that the query asks for, in position order, up to the newest.

    Raises:
        LifebusError: it cannot be read, or the next receipt is damaged (``row_damaged``).
    """
    for page in pages_of_file(path, query):
        yield from (stored.receipt for stored in page.stored)


def pages_of_file(path: Path, query: Backfill) -> Iterator[Page]:
    """Yield the pages of a ledger file that the query asks for, up to the newest receipt.

    Raises:
        LifebusError: it cannot be read, or the next receipt is damaged (``row_damaged``).
    """
    with user_errors(path), closing(Reader(_existing(path))) as reader:
        after = max(query.after, reader.page(query_of(query, 0)).floor)
        while True:
            page = reader.page(query_of(query, after))
            yield page
            if page.damaged:
                raise DamagedRow(page.damaged[0])
            after = page.next
            if page.complete:
                return


class DamagedRange(Struct, frozen=True):
    """Receipts of a file that are not what was written, from one position through another, and why."""

    position: int
    through: int
    why: str


def rescued_receipts(path: Path, query: Backfill) -> Iterator[bytes | DamagedRange]:
    """Yield the sound receipts of a damaged ledger file as `receipts_of_file`, and what lies between them.

    Raises:
        LifebusError: it is no ledger, or cannot be opened.
    """
    with user_errors(path):
        for found in rescue_rows(_existing(path), query_of(query, query.after)):
            if isinstance(found, DamagedReceipt):
                yield DamagedRange(found.position, found.through, found.why)
            else:
                yield found.receipt


def short_of_room(settings: Settings) -> str | None:
    """Say on which disk there is less room than a broker leaves free; None where nothing is refused for that."""
    # A page more than nothing is needed even where all of it may be filled.
    spare = max(settings.retention.spare_mb * _MIB, _LEAST_ROOM)
    for path in dict.fromkeys((settings.state_dir, settings.ledger_path.parent)):
        if path.is_dir():
            found = os.statvfs(path)
            free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
            if is_short(free, total, spare) or free < _LEAST_ROOM:
                return f"{path}: the disk is full, {free // 1024} KiB free"
    return None


def negotiate_here(settings: Settings, adapter_id: str, requirements: Sequence[CapabilityRequest]) -> Negotiation:
    """Return what the adapter gives for the requirements, by the manifests that a broker would load.

    Raises:
        AdapterUnavailable: no such adapter.
    """
    return negotiate(configured_adapters(settings).require(adapter_id), requirements)


def renewal_claims(registered: RegisteredAdapter) -> list[tuple[str, str, str | None]]:
    """Return each renewal capability with its claimed support and, where it is none here, why."""
    names = sorted(name for name in CAPABILITIES if name.startswith(RENEWAL))
    return [(name, claim_of(registered.manifest, name).value, explain_lack(registered, name)) for name in names]


def check_bodies(document: Document) -> None:
    """Check what the payloads of a document say about their bodies (docs/contract.md 5.2).

    That is size, digest, encoding and expiry of each, and that no payload id comes twice.

    Raises:
        InvalidRequest: one says something else than its body shows; `field` leads to it.
    """
    payloads = _payloads_of(document)
    refusals = check_each([payload for _, payload in payloads], int(time.time()))
    for (path, payload), refusal in zip(payloads, refusals, strict=True):
        if refusal is not None:
            rule = refusal.detail.removeprefix(f"payload `{payload.payload_id[:64]}`: ")
            raise InvalidRequest(refusal.detail, code=refusal.code, field=f"{path}.{rule.partition(':')[0]}")


def _payloads_of(document: Document) -> list[tuple[str, PayloadEnvelope]]:
    """Return a document's payloads with their paths."""
    match document:
        case PayloadEnvelope():
            return [("$", document)]
        case CallbackResponse():
            field, payloads = "client_payloads", document.client_payloads
        case DispatchEnvelope() | Emission():
            field, payloads = "payloads", document.payloads
        case _:
            return []
    return [(f"$.{field}[{index}]", payload) for index, payload in enumerate(payloads)]


def _existing(path: Path) -> Path:
    if not path.is_file():
        why = "there is no such ledger; `lifebus config show --origin` shows where lifebus keeps its own"
        raise unreadable(path, why)
    return path
