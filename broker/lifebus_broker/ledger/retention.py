"""Decide what a ledger need not keep: whole prefixes, by age and by size (docs/ledger.md, "Retention").  Pure."""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

LEAST_ROWS: Final = 1_024
"""The newest receipts, which no limit of size takes: a ledger of less than that is of no use to anybody."""

_SLACK: Final = 10
"""Once it is too much, a tenth of the limit is freed beyond it: dropping a little each minute costs more."""

_PERCENT: Final = 100

Reason = Literal["age", "size", "operator"]
"""Why receipts are dropped: too old, too many, or because an operator said so."""


class Limits(Struct, frozen=True, kw_only=True):
    """What is kept at most: for so many seconds, in so many bytes; None is no limit."""

    keep_s: int | None = None
    keep_bytes: int | None = None


class Held(Struct, frozen=True, kw_only=True):
    """What a ledger holds: positions after `floor` up to `head`.

    `bytes` is what its files take together, without what is free in them and without the journal.  `aged` is the
    newest position whose receipt, and all before it, is older than the limit.
    """

    head: int
    floor: int
    bytes: int
    aged: int = 0


class PruneDecision(Struct, frozen=True):
    """Everything up to `floor` is to be dropped, and why."""

    floor: int
    reason: Reason


def excess(held: Held, keep_bytes: int | None) -> int:
    """Return how many bytes of receipts are to go so that the rest fits with room to grow; 0 when it fits."""
    if keep_bytes is None or held.bytes <= keep_bytes:
        return 0
    return held.bytes - keep_bytes + keep_bytes // _SLACK


def decide(held: Held, limits: Limits, lighten: Callable[[int], int]) -> PruneDecision | None:
    """Return what to drop now, None when everything may stay.

    `lighten` returns up to which position receipts must go to free so many bytes.  Age may take everything; size leaves
    the newest `LEAST_ROWS`.
    """
    cuts = [PruneDecision(min(held.aged, held.head), "age")] if limits.keep_s is not None else []
    too_much = excess(held, limits.keep_bytes)
    if too_much:
        cuts.append(PruneDecision(min(lighten(too_much), held.head - LEAST_ROWS), "size"))
    # the limit that takes more decides, and is the reason on record
    cut = max(cuts, key=lambda one: one.floor, default=None)
    return cut if cut is not None and cut.floor > held.floor else None


def is_short(free: int, total: int, spare: int) -> bool:
    """Whether a file system has less free than `spare` bytes and than 1 % of it: below the smaller of the two."""
    return free < min(spare, total // _PERCENT)
