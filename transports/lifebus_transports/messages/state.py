"""The bodies about state and retention: what was dropped, and the state that stands for it."""

from typing import Any, Final, Literal

from msgspec import Struct

from lifebus_contract import LifecycleEvent, PressureLevel
from lifebus_contract.fields import Count, Document

STATE_PIECE: Final = 196_608
"""Most bytes of a state that one page holds."""


class StateHint(Struct, frozen=True, kw_only=True):
    """The oldest state that a subscriber can start from: as it was after the receipt at `position`."""

    position: int


class StateQuery(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`state`: the state at a position from some byte on; without a position, the oldest that there is."""

    position: Count | None = None
    offset: Count = 0


class StatePage(Document, frozen=True, kw_only=True):
    """The answer to `state`: a piece of the working set, which is canonical JSON of `size` bytes in all.

    Its SHA-256 is ``working_set_digest`` in `digests`, which has those of the stores as well (docs/ledger.md, "State").
    """

    epoch: str
    position: int
    digests: dict[str, str]
    size: int
    offset: int
    data: bytes


class WorkingFrame(Struct, frozen=True, kw_only=True):
    """A frame that has not ended: when and where it opened, its parent frame, and its task."""

    frame_id: str
    opened_at_epoch_s: int = 0
    parent: str | None = None
    position: int = 0
    task: str | None = None


class WorkingSession(Struct, frozen=True, kw_only=True):
    """A session that is not over, or has an open frame; `sequence` and `last_position` are those of its newest receipt.

    `level` is the pressure that was observed last.
    """

    adapter_id: str
    harness_session_id: str
    sequence: int
    last_position: int
    last_event: LifecycleEvent | None
    started: bool = False
    compactions: int = 0
    level: PressureLevel | None = None
    frames: tuple[WorkingFrame, ...] = ()
    name: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    title: str | None = None


class WorkingState(Struct, frozen=True, kw_only=True):
    """The working set: what was visible after the receipt at `position` (docs/ledger.md, "Resume").

    `weaker` has one entry an adapter or session whose capabilities are not what the manifest claims: adapter, session
    or None, and the last word about each capability.  `pending_state` has ``PENDING_ROLL`` (frames without an end),
    ``PENDING_CONSENT`` (questions to an operator) and ``PENDING_HANDOUT`` (payloads not placed).
    """

    position: int
    sessions: tuple[WorkingSession, ...]
    weaker: tuple[tuple[str, str | None, dict[str, str]], ...]
    # Plain data: clients read it without the broker's types, which are not theirs to import.
    pending_state: dict[str, Any] | None
    pins_snapshot: dict[str, Any]


class PruneStatus(Struct, frozen=True, kw_only=True):
    """What was dropped last: the receipts after `after` up to `until`, when, and why.

    `reason` is `age`, `size` or `operator`.  `consumers` are the named consumers that lost receipts which they had not
    settled; each of them gets a gap.
    """

    at_epoch_s: int
    reason: Literal["age", "size", "operator"]
    after: int
    until: int
    consumers: tuple[str, ...] = ()


class ScrubStatus(Struct, frozen=True, kw_only=True):
    """How the check of the whole ledger at idle stands (docs/ledger.md, "The scrub"); times in seconds since 1970.

    `part` and `position` say where the present one is, None and 0 between two; `ended_epoch_s` when the last whole one
    ended; `faults` what was found, and is not known to be gone.
    """

    every_h: int
    part: str | None = None
    position: int = 0
    began_epoch_s: int | None = None
    ended_epoch_s: int | None = None
    faults: tuple[str, ...] = ()


class BackupStatus(Struct, frozen=True, kw_only=True):
    """How the scheduled backups stand (docs/ledger.md, "Scheduled backups"); times in seconds since 1970.

    `last_epoch_s` and `file` are those of the newest backup; `failed_epoch_s` and `fault` are those of the last
    attempt, if that failed.
    """

    folder: str
    every_h: int
    keep: int
    last_epoch_s: int | None = None
    file: str | None = None
    failed_epoch_s: int | None = None
    fault: str | None = None


class RetentionStatus(Struct, frozen=True, kw_only=True):
    """The state of retention: the limits (0 is none), the size of the ledger's files, and the broker's last cut."""

    keep_days: int
    keep_mb: int
    dedupe_days: int
    bytes: int
    last: PruneStatus | None = None
