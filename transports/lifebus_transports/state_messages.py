"""What is told of retention: how much is kept, what was dropped, and the state that stands for what is gone.

Above: messages, the daemon, the client library.  Below: the contract.
"""

from typing import Literal

from msgspec import Struct

__all__ = ["CutStatus", "RetentionStatus"]


class CutStatus(Struct, frozen=True, kw_only=True):
    """What was dropped last: the receipts after `after` up to `until`, when, and why.

    `reason` is ``age``, ``size`` or ``space`` (no room on the disk).  `consumers` are the named consumers that lost
    something which they had not settled; each is told by a gap.
    """

    at_epoch_s: int
    reason: Literal["age", "size", "space"]
    after: int
    until: int
    consumers: tuple[str, ...] = ()


class RetentionStatus(Struct, frozen=True, kw_only=True):
    """How retention stands: the limits (0 is none), what the ledger's files take, and the last cut of this broker."""

    keep_days: int
    keep_mb: int
    dedupe_days: int
    bytes: int
    last: CutStatus | None = None
