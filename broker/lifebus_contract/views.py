"""The state of a ledger and of its sessions, as the broker returns it and as clients read it."""

from msgspec import Struct

from lifebus_contract.vocabulary import LifecycleEvent, PressureLevel, ReceiptStatus


class Wait(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a session waits for a person to do (docs/waiting.md).

    `waiting_for` is `permission`, `input` or `idle`; `since_ms` is in milliseconds since 1970.  `kind` says for what
    kind of thing: the name of a tool, or the kind of a question.  `request` is the harness's own id, if it has one;
    `nested` says that a sub-agent waits.
    """

    frame_id: str | None = None
    kind: str | None = None
    nested: bool = False
    request: str | None = None
    since_ms: int
    waiting_for: str


class SessionHead(Struct, frozen=True, kw_only=True):
    """What the state reducer knows of a session after its newest receipt (docs/sessions.md).

    The fields after `harness_sequence` are None if the ledger keeps no state of sessions, or none that can be read.
    `name` is the session's short name, ``api#3``.  `cwd`, `git_branch` and `title` are what its harness reported last,
    as far as it is recorded; `pressure`, `used_pct` and `used_tokens` are what was measured last.
    """

    adapter_id: str
    harness_session_id: str
    sequence: int  # of the newest receipt, counted within the session
    receipts: int  # how many the session ever had, pruned ones included
    first_position: int
    last_position: int
    last_event: LifecycleEvent
    last_status: ReceiptStatus
    started_at_epoch_s: int  # of the first receipt, whatever its event
    last_at_epoch_s: int
    ended: bool
    open_frames: tuple[str, ...]  # frame ids that were opened and not ended, oldest first
    harness_sequence: int | None  # the newest of the harness's own numbers, None where it sends none
    name: str | None = None
    cwd: str | None = None  # a path, or a name alone
    git_branch: str | None = None
    title: str | None = None
    turns: int | None = None
    subagents: int | None = None
    compactions: int | None = None
    failures: int | None = None
    pressure: PressureLevel | None = None
    used_pct: int | None = None
    used_tokens: int | None = None
    waiting: tuple[Wait, ...] | None = None  # what it waits for a person to do, the oldest first
    forgotten: bool | None = None  # an operator had it forgotten: lists leave it out


class LedgerStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the ledger promises, and whether it takes writes now.

    `writable` is false while the disk is full; `durability` is `none`, `full` or `relaxed`.  `lacks` names what this
    ledger cannot do: `durable`, `snapshots`, `retention`, `local_file`.  `damaged` says where each damaged receipt that
    was found is, and why it is damaged.  Both are left out if they are empty.
    """

    backend: str
    durability: str
    epoch: str  # the id of this history, as 32 hex digits
    head: int  # position of the newest receipt, 0 without any
    floor: int  # position up to which receipts were pruned
    writable: bool
    queued: int  # receipts that wait for their commit
    size_bytes: int
    library: str  # name and version of what stores it
    lacks: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
