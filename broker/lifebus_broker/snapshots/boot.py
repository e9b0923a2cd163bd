"""Cold boot: a snapshot and the log in, equal stores out, or an error that says why (docs/ledger.md, "Cold boot").

The twelve steps run in this order, pins before the log is touched.  Each leaves a record of what was
checked; the first that fails ends the boot.  Nothing is written anywhere.
"""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from lifebus_broker.canonical_json import canonical, sha256_hex
from lifebus_broker.ledger.log import LogSource
from lifebus_broker.ports import Record
from lifebus_broker.snapshots.change_location import locate_change
from lifebus_broker.snapshots.cold_boot_error import JOURNAL_DAMAGED, NO_PINS, STEPS, ColdBootError, Step
from lifebus_broker.snapshots.compaction_checks import CompactionVerifier, ReadCompaction, VerifiedCompactions
from lifebus_broker.snapshots.frozen import FrozenMap, thaw
from lifebus_broker.snapshots.pins import what_is_missing
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_broker.snapshots.revisions import PinCheck, PinMismatch, check_pins
from lifebus_broker.snapshots.segment import BadLine, hash_segment, read_segment
from lifebus_broker.snapshots.snapshot import SaveSnapshot, decode_snapshot, encode_snapshot
from lifebus_broker.snapshots.supplement import Supplement
from lifebus_broker.state.receipt_view import BrokenLog
from lifebus_broker.state.stores import StoreDigests, Stores, load_base, pending_of, reduce_event, store_digests
from lifebus_broker.state.working_set import WorkingSet, compile_working_set, encode_working_set
from lifebus_contract import LifebusError

_STORES: Final = ("facts_ledger_digest", "unlock_state_digest", "story_state_digest")

StoresAt = Callable[[int], Stores]
"""Gives the stores after a position by a shorter way than reading everything before it; the caller may change them."""


class KeptFiles(Struct, frozen=True, kw_only=True):
    """What files hold beside a snapshot: its compactions, to be compared, and its supplement, to name a bad line."""

    compaction: ReadCompaction | None = None
    supplement: Supplement | RefusedFile | None = None


class Booted(Struct, frozen=True, kw_only=True):
    """What a cold boot rebuilt: the stores after `snapshot.timestamp_event_id`, what was visible then, how pins match.

    `rebuilt` says which files of compactions are stale; they are to be deleted before anything is shown of them.
    """

    snapshot: SaveSnapshot
    stores: Stores
    working_set: WorkingSet
    pins: PinCheck
    rebuilt: VerifiedCompactions
    steps: tuple[Step, ...]


def cold_boot(
    snapshot: SaveSnapshot,
    source: LogSource,
    pins: FrozenMap | None,
    revisions: Iterable[Record],
    *,
    stores_at: StoresAt | None = None,
    kept: KeptFiles | None = None,
    done: Callable[[Step], None] | None = None,
) -> Booted:
    """Rebuild the stores of a snapshot from the log alone, and prove that they are the ones of the snapshot.

    `pins` are those of this environment, `revisions` the records of the stream ``pins`` (`pinned_revisions`), which are
    read only where pins differ.  `stores_at` shortens the way to a snapshot whose lines begin behind others; without it
    those are read as well.  `kept` is what files hold beside the snapshot.  `done` is called after each step.  Blocks.

    Raises:
        ColdBootError: something is not as it was; nothing has changed anywhere.
    """
    boot = _Boot(snapshot, source, stores_at, kept or KeptFiles(), done or (lambda _: None))
    boot.load_snapshot()
    check = boot.compare_pins(pins, revisions)
    boot.load_log()
    boot.compare_hash()
    boot.initialise()
    boot.replay()
    boot.compute_digests()
    boot.compare_digests()
    boot.compile_working_set()
    boot.compare_working_set()
    boot.restore_pending()
    rebuilt = boot.rebuild_compactions()
    return Booted(
        snapshot=snapshot,
        stores=boot.stores,
        working_set=boot.working_set,
        pins=check,
        rebuilt=rebuilt,
        steps=tuple(boot.steps),
    )


class _Boot:
    """One cold boot; each step is a method."""

    stores: Stores
    working_set: WorkingSet
    _digests: StoreDigests

    def __init__(
        self,
        snapshot: SaveSnapshot,
        source: LogSource,
        stores_at: StoresAt | None,
        kept: KeptFiles,
        done: Callable[[Step], None],
    ) -> None:
        self.steps: list[Step] = []
        self._snapshot, self._source, self._restart = snapshot, source, stores_at
        self._compactions, self._supplement = CompactionVerifier(snapshot, kept.compaction), kept.supplement
        self._done = done
        self._first, self._last = snapshot.event_log_range

    def load_snapshot(self) -> None:
        """Step 1: the snapshot is what its id says, down to each byte."""
        try:
            read = decode_snapshot(encode_snapshot(self._snapshot))
        except ValueError as fault:
            raise self._failed(str(fault)) from None
        # The caller's object may have been built by hand, with fields that no file would hold.
        if read != self._snapshot:
            raise self._failed("the canonical bytes are not those of its fields")
        size = len(read.canonical_bytes)
        self._record(f"{read.save_type} {read.snapshot_id}: its id and hash follow from its {size} bytes")

    def compare_pins(self, pins: FrozenMap | None, revisions: Iterable[Record]) -> PinCheck:
        """Step 2: the pins are today's, or revisions lead there; the log was not touched yet."""
        try:
            check = check_pins(self._snapshot.pins_snapshot, pins, revisions)
        except PinMismatch as fault:
            # A revision leads from pins to pins: without any it would be refused.
            is_lacking = what_is_missing(self._snapshot.pins_snapshot) is not None
            raise ColdBootError(2, None, str(fault), advice=NO_PINS if is_lacking else None) from None
        # A revision that may be forged authorises nothing (docs/ledger.md G6).
        except LifebusError as fault:
            raise ColdBootError(2, None, fault.detail, advice=JOURNAL_DAMAGED) from None
        count = len(check.revisions)
        how = f"{count} revisions lead to today's: {'; '.join(map(str, check.changes))}" if count else "all are today's"
        self._record(how)
        return check

    def load_log(self) -> None:
        """Step 3: the log holds the range."""
        try:
            floor, head = self._source.floor, self._source.head
        except LifebusError as fault:
            raise self._failed(fault.detail) from None
        # Lines that are gone cannot be hashed, whatever the stores say.
        if self._first <= floor:
            raise self._failed(f"the log was pruned up to {floor}, so its hash cannot be proved any more", self._first)
        if head < self._last:
            raise self._changed(self._last, f"the log ends at {head}, and {self._last} was saved")
        self._record(f"positions {self._first} to {self._last}; the log holds {floor + 1} to {head}")

    def compare_hash(self) -> None:
        """Step 4: each byte of the range is what it was."""
        try:
            found = hash_segment(self._source, self._first - 1, self._last)
            for _ in read_segment(self._source, self._last, min(self._last + 1, self._source.head)):
                pass  # reading the next line checks that it stands in its own place
        except BadLine as fault:
            # A bad line behind the range needs no search: it is named as it is.
            within = fault.position <= self._last
            failed = self._changed(fault.position) if within else self._failed(str(fault), fault.position)
            raise failed from None
        # The hash says that something differs; a replay and the supplement say where.
        if found != self._snapshot.event_log_hash:
            raise self._changed(self._last, f"its hash is {found}")
        self._record(f"sha256 {found}")

    def initialise(self) -> None:
        """Step 5: empty stores, or those before the range where the range does not begin with the log."""
        self.stores = self._before()
        # The boundary of a cache may lie at the range's beginning.
        self._compactions.visit(self.stores)
        self._record("empty" if self.stores.position == 0 else f"as they were at position {self.stores.position}")

    def replay(self) -> None:
        """Step 6: each line through the one reducer."""
        try:
            for line in read_segment(self._source, self.stores.position, self._last):
                reduce_event(self.stores, line)
                self._compactions.visit(self.stores)
        except (BadLine, BrokenLog) as fault:
            raise self._failed(_reason(fault), fault.position) from None
        self._record(f"{self._last + 1 - self._first} lines")

    def compute_digests(self) -> None:
        """Step 7: the digests of the rebuilt stores."""
        # With the pins of the snapshot, not with today's: revisions may lead from one to the other.
        self._digests = store_digests(self.stores, thaw(self._snapshot.pins_snapshot))
        self._record(", ".join(f"{_name(field)} {getattr(self._digests, field)}" for field in _STORES))

    def compare_digests(self) -> None:
        """Step 8: facts ledger, unlock state and story state are byte-identical."""
        for field in _STORES:
            self._compare(field, getattr(self._digests, field))
        self._record("facts ledger, unlock state and story state are byte-identical")

    def compile_working_set(self) -> None:
        """Step 9: what was visible then."""
        self.working_set = compile_working_set(self.stores, thaw(self._snapshot.pins_snapshot))
        self._record(f"{len(self.working_set.sessions)} live sessions")

    def compare_working_set(self) -> None:
        """Step 10: it is what was visible then, byte for byte."""
        self._compare("working_set_digest", sha256_hex(encode_working_set(self.working_set)))
        self._record("the working set is byte-identical")

    def restore_pending(self) -> None:
        """Step 11: what waits for somebody waits still, and nothing else does."""
        stored, rebuilt = self._snapshot.pending_state, pending_of(self.stores)
        # As bytes: a list and a tuple are the same here.
        if canonical(thaw(stored)) != canonical(rebuilt):
            raise self._failed("what is pending in the snapshot is not what is pending in the log", self._last)
        kinds = [f"{len(items)} {kind}" for kind, items in (rebuilt or {}).items() if kind != "left_out"]
        self._record(", ".join(kinds) or "nothing is pending")

    def rebuild_compactions(self) -> VerifiedCompactions:
        """Step 12: the compactions that the snapshot names, and no others, follow from the log."""
        try:
            rebuilt = self._compactions.finish(self.stores)
        except ValueError as fault:
            raise self._failed(str(fault)) from None
        stale = f", {len(rebuilt.stale)} files hold something else" if rebuilt.stale else ""
        self._record(f"{rebuilt.built} rebuilt, {rebuilt.kept} of them are kept in files{stale}")
        return rebuilt

    def _before(self) -> Stores:
        """Return the stores before the range: those of the base, or what leads on from there."""
        try:
            if self._restart is not None and self._first - 1 > self._source.floor:
                return self._restart(self._first - 1)
            dump = self._source.base()
            stores = Stores() if dump is None else load_base(dump)
            for line in read_segment(self._source, stores.position, self._first - 1):
                reduce_event(stores, line)
        except (BadLine, BrokenLog) as fault:
            raise self._failed(_reason(fault), fault.position) from None
        except LifebusError as fault:
            raise self._failed(fault.detail, self._source.floor) from None
        return stores

    def _compare(self, field: str, found: str) -> None:
        expected: str = getattr(self._snapshot, field)
        if found != expected:
            raise self._failed(f"the digest of the {_name(field)} is {found}, and was {expected}", self._first - 1)

    def _record(self, checked: str) -> None:
        step = Step(number=len(self.steps) + 1, name=STEPS[len(self.steps)], checked=checked)
        self.steps.append(step)
        self._done(step)

    def _changed(self, through: int, evidence: str = "") -> ColdBootError:
        """Return the failure that names the first line up to a position that is not what it was."""
        behind = f" ({evidence})" if evidence else ""
        found = locate_change(self._before(), self._source, through, self._supplement)
        if isinstance(found, BadLine):
            return self._failed(f"{found}{behind}", found.position)
        return ColdBootError(len(self.steps) + 1, None, f"{found}{behind}", within=(self._first, self._last))

    def _failed(self, reason: str, position: int | None = None) -> ColdBootError:
        return ColdBootError(len(self.steps) + 1, position, reason)


def _name(field: str) -> str:
    return field.removesuffix("_digest").replace("_", " ")


def _reason(fault: BadLine | BrokenLog) -> str:
    return fault.detail if isinstance(fault, BrokenLog) else str(fault)
