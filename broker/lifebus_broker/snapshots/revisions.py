"""Revisions: that an operator said that pins may change, from what to what, and why (docs/ledger.md G6).

A revision is a record in the journal, written by an operator's explicit act and by nothing else.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from lifebus_broker.canonical_json import canonical
from lifebus_broker.ports import Record
from lifebus_broker.snapshots.frozen import FrozenMap, freeze_map, thaw
from lifebus_broker.snapshots.pins import PinChange, changes_between, what_is_missing

REVISIONS: Final = "pins"
"""The stream of the journal that holds the revisions."""


class Revision(Struct, frozen=True, kw_only=True):
    """One record: the pins before and after, whole, why they changed, and who said so."""

    before: FrozenMap
    after: FrozenMap
    reason: str
    actor: str

    @property
    def changes(self) -> tuple[PinChange, ...]:
        """The pins that the record changes."""
        return changes_between(self.before, self.after)


class PinCheck(Struct, frozen=True, kw_only=True):
    """How pins were found to match: `revisions` led from the stored ones to today's, none where nothing changed."""

    revisions: tuple[Revision, ...]
    changes: tuple[PinChange, ...]


class PinMismatch(ValueError):
    """Pins differ and no chain of revisions explains it.

    `reached` are the pins that the revisions lead to, None where there is nothing to stand on.
    """

    def __init__(self, detail: str, reached: FrozenMap | None = None) -> None:
        super().__init__(detail)
        self.reached = reached


_Text = Annotated[str, Meta(min_length=1, max_length=1024)]


class _Stored(Struct, frozen=True, forbid_unknown_fields=True, rename={"before": "from", "after": "to"}):
    """A revision as a record of the journal holds it; `pins` names what changes."""

    actor: _Text
    before: dict[str, Any]
    after: dict[str, Any]
    pins: tuple[str, ...]
    reason: _Text


_DECODER: Final = msgspec.json.Decoder(_Stored)


def encode_revision(revision: Revision) -> bytes:
    """Return the canonical JSON of a record: actor, from, pins, reason, to.

    Raises:
        ValueError: it changes nothing, a set of pins is not whole, reason or actor is empty or too long.
    """
    body = canonical(
        {
            "actor": revision.actor,
            "from": thaw(revision.before),
            "pins": [change.pin for change in revision.changes],
            "reason": revision.reason,
            "to": thaw(revision.after),
        }
    )
    # Whatever is written can be read again: the rules stand once, in the decoder.
    decode_revision(body)
    return body


def decode_revision(body: bytes) -> Revision:
    """Return the revision that a record holds.

    Raises:
        ValueError: it is none, or contradicts itself.
    """
    try:
        stored = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as fault:
        raise ValueError(str(fault)[:200]) from None
    revision = Revision(
        before=freeze_map(stored.before), after=freeze_map(stored.after), reason=stored.reason, actor=stored.actor
    )
    for pins in (revision.before, revision.after):
        if missing := what_is_missing(pins):
            raise ValueError(missing)
    # Redundant on purpose: a record whose parts contradict each other was tampered with.
    changed = tuple(change.pin for change in revision.changes)
    if not changed or changed != stored.pins:
        raise ValueError("pins: does not name what changes between `from` and `to`")
    return revision


def check_pins(stored: FrozenMap | None, today: FrozenMap | None, records: Iterable[Record]) -> PinCheck:
    """Return how the stored pins lead to today's: they are equal, or revisions lead from the one to the other.

    The records are those of the stream `REVISIONS`, in order.  Each record whose `from` is what was reached so far is
    applied, all of them, so that an operator's latest decision counts.

    Raises:
        PinMismatch: no pins, or a difference that no chain of revisions explains.
    """
    for whose, pins in (("snapshot", stored), ("environment", today)):
        if missing := what_is_missing(pins):
            raise PinMismatch(f"the {whose}: {missing}")
    if stored is None or today is None:
        raise PinMismatch("there are no pins")
    changes = changes_between(stored, today)
    if not changes:
        return PinCheck(revisions=(), changes=())
    # Equal pins need no record, so the journal is read only now.
    applied, reached = _follow(stored, records)
    left = changes_between(reached, today)
    if left:
        so_far = f", after {len(applied)} revisions" if applied else ""
        raise PinMismatch("; ".join(str(change) for change in left) + so_far, reached)
    return PinCheck(revisions=applied, changes=changes)


def revise(stored: FrozenMap, today: FrozenMap, records: Iterable[Record], *, reason: str, actor: str) -> Revision:
    """Return the record that leads from where the stored pins are by now to today's.

    Raises:
        PinMismatch: there are no pins to stand on, or a record in the journal is damaged.
        ValueError: they are there already, or reason or actor is empty or too long.
    """
    try:
        check_pins(stored, today, records)
    except PinMismatch as fault:
        # Nothing to start from: there are no pins, or a record is damaged.
        if fault.reached is None:
            raise
        revision = Revision(before=fault.reached, after=today, reason=reason, actor=actor)
        encode_revision(revision)
        return revision
    raise ValueError("the pins lead to today's already")


def _follow(pins: FrozenMap, records: Iterable[Record]) -> tuple[tuple[Revision, ...], FrozenMap]:
    """Return the records that apply one after the other, and the pins after them."""
    applied: list[Revision] = []
    for record in records:
        try:
            revision = decode_revision(record.body)
        except ValueError as fault:
            raise PinMismatch(f"the revision {record.number} in the journal is damaged: {fault}") from None
        # Records of another line of changes are skipped; an operator may have gone back.
        if not changes_between(pins, revision.before):
            applied.append(revision)
            pins = revision.after
    return tuple(applied), pins
