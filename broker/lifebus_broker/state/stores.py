"""The stores: all that follows from the log, updated in place by one reducer, and their canonical bytes and digests.

    stores = Stores()
    for line in source.lines(0, source.head):
        reduce_event(stores, line)

docs/ledger.md, "State" calls them facts ledger, unlock state, story state; the working set is
compiled from them.  No clock, no randomness, no environment, no iteration order: the same log always gives the same
bytes, on every machine, and however often one stops, dumps, loads and goes on.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any, Final, Self

import msgspec
from msgspec import Struct

from lifebus_broker.canonical_json import consists_of
from lifebus_broker.ledger.log import LogLine
from lifebus_broker.state.capability_state import CapabilityState
from lifebus_broker.state.receipt_view import BrokenLog, read_receipt
from lifebus_broker.state.sealed import NewItems, SealedInMemory
from lifebus_broker.state.session_table import SessionTable
from lifebus_broker.state.stream_digests import FactsLedger
from lifebus_broker.state.working_set import Pending, compile_working_set, encode_working_set, pending_in
from lifebus_contract import InternalError

REDUCER_VERSION: Final = 3
"""Counts up whenever the same log would give other bytes; dumps of another version are not loaded, but rebuilt."""

READABLE_BASES: Final = (1, 2, REDUCER_VERSION)
"""The versions whose dumps can stand for pruned receipts."""

# Items that are written and hashed at once: hashlib frees the interpreter's lock meanwhile.
_CHUNK: Final = 64


class Stores:
    """The stores after the receipt at `position`; `facts` also says where each stream is.

    What they keep of sessions that ended is kept where `new_items` keeps it.
    """

    def __init__(self, new_items: NewItems = SealedInMemory) -> None:
        self.facts = FactsLedger(new_items)
        self.capabilities = CapabilityState()
        self.sessions = SessionTable(new_items)
        self.position = 0

    def copy(self) -> Self:
        """Return stores of their own that say the same."""
        other = type(self)()
        other.facts = self.facts.copy()
        other.capabilities = self.capabilities.copy()
        other.sessions = self.sessions.copy()
        other.position = self.position
        return other


class StoreDigests(Struct, frozen=True, kw_only=True):
    """SHA-256, as hex, of the canonical bytes of each store and of the working set."""

    facts_ledger_digest: str
    story_state_digest: str
    unlock_state_digest: str
    working_set_digest: str


class _Dump(Struct, frozen=True, forbid_unknown_fields=True):
    """A dump, its items still as text."""

    facts: list[msgspec.Raw]
    position: int
    reducer: int
    story: list[msgspec.Raw]
    unlock: list[msgspec.Raw]


class _Version(Struct, frozen=True):
    reducer: int


def reduce_event(stores: Stores, line: LogLine) -> None:
    """Apply the next line of the log.

    Raises:
        BrokenLog: the line is not the next one, holds no receipt, or its sequence or link do not follow; the stores
            are as they were.
    """
    position = line.position
    if position != stores.position + 1:
        raise BrokenLog(position, f"stands where {stores.position + 1} should")
    receipt = read_receipt(line.receipt, position)
    # First, as it alone can refuse: then no store has changed.
    stores.facts.apply(position, line.receipt, receipt, line.link)
    stores.capabilities.apply(receipt)
    if sealed := stores.sessions.apply(position, receipt):
        stores.facts.seal(sealed)
    stores.position = position


def dump_stores(stores: Stores, version: int = REDUCER_VERSION) -> bytes:
    """Return the stores as canonical JSON, from which `load_stores` makes equal ones; `version` is of the reducers."""
    return b"".join(dump_pieces(stores, version))


def dump_pieces(stores: Stores, version: int = REDUCER_VERSION) -> Iterator[bytes]:
    """Yield what `dump_stores` returns in pieces, so that of many sessions it need not be in memory at once."""
    yield b'{"facts":'
    yield from _array(stores.facts.dump())
    yield f',"position":{stores.position},"reducer":{version},"story":'.encode()
    yield from _array(stores.sessions.dump())
    yield b',"unlock":'
    yield from _array(stores.capabilities.dump())
    yield b"}"


def load_base(data: bytes, new_items: NewItems = SealedInMemory) -> Stores:
    """Return the stores that a dump in place of pruned receipts holds; one of an earlier version is read as well.

    What stood in it cannot be replayed any more, and later versions only added fields.

    Raises:
        InternalError: as `load_stores`.
    """
    return _load(data, READABLE_BASES, new_items)


def load_stores(data: bytes, new_items: NewItems = SealedInMemory) -> Stores:
    """Return the stores that a dump holds.

    Raises:
        InternalError: the bytes are not what `dump_stores` writes (`dump_broken`), or what another version of the
            reducers wrote (`reducer_version`): then replay the log.
    """
    return _load(data, (REDUCER_VERSION,), new_items)


def _load(data: bytes, readable: Collection[int], new_items: NewItems) -> Stores:
    stores = Stores(new_items)
    try:
        # Before decoding: another version may have other fields.
        version = _check_version(data, readable)
        dump = _DUMP.decode(data)
        stores.position = dump.position
        stores.facts.load(dump.facts)
        stores.sessions.load(dump.story)
        stores.capabilities.load(dump.unlock)
    except (msgspec.DecodeError, UnicodeError, ValueError, RecursionError) as fault:
        raise InternalError(f"not a dump of the stores: {str(fault)[:200]}", code="dump_broken") from None
    # Only the canonical form is accepted: digests are of bytes, not of values.
    if not consists_of(data, dump_pieces(stores, version)):
        raise InternalError("not a dump of the stores: its form is not the canonical one", code="dump_broken")
    return stores


def store_digests(stores: Stores, pins: Mapping[str, Any]) -> StoreDigests:
    """Return the digests of the stores and of their working set with these pins; in small steps, fit for a thread.

    Raises:
        ValueError: the pins have no canonical form.
    """
    return StoreDigests(
        facts_ledger_digest=_digest(stores.facts.dump()),
        story_state_digest=_digest(stores.sessions.dump()),
        unlock_state_digest=_digest(stores.capabilities.dump()),
        working_set_digest=sha256(encode_working_set(compile_working_set(stores, pins))).hexdigest(),
    )


def pending_of(stores: Stores) -> Pending | None:
    """Return what is pending (`working_set.pending_in`), None where nothing is."""
    return pending_in(stores.sessions)


def _check_version(data: bytes, readable: Collection[int]) -> int:
    found = _VERSION.decode(data).reducer
    if found not in readable:
        raise InternalError(
            f"a dump by version {found} of the reducers, and this is version {REDUCER_VERSION}: replay the log",
            code="reducer_version",
        )
    return found


def _array(items: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a JSON list in pieces of some items each."""
    items = iter(items)
    head = b"["
    # Joined in chunks: what is small is freed in places from which nothing goes back to the system.
    while chunk := b",".join(islice(items, _CHUNK)):
        yield head + chunk
        head = b","
    yield b"[]" if head == b"[" else b"]"


def _digest(items: Iterator[bytes]) -> str:
    """Return the SHA-256 of the list of the items; the interpreter is free between chunks."""
    state = sha256()
    for piece in _array(items):
        state.update(piece)
    return state.hexdigest()


_DUMP: Final = msgspec.json.Decoder(_Dump)
_VERSION: Final = msgspec.json.Decoder(_Version)
