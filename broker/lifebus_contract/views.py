"""What a ledger tells of itself and of its sessions, as the broker returns it and as clients read it."""

from msgspec import Struct

from lifebus_contract.vocabulary import LifecycleEvent, ReceiptStatus


class SessionHead(Struct, frozen=True, kw_only=True):
    """What the fold over a session's rows knows (docs/ledger.md, "State")."""

    adapter_id: str
    harness_session_id: str
    sequence: int
    receipts: int
    first_position: int
    last_position: int
    last_event: LifecycleEvent
    last_status: ReceiptStatus
    started_at_epoch_s: int
    last_at_epoch_s: int
    ended: bool
    open_frames: tuple[str, ...]
    harness_sequence: int | None


class LedgerStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the ledger is: what it promises and whether it takes writes.

    `writable` is false while the disk is full; `durability` is ``none``, ``full`` or ``relaxed``.  `lacks` names what
    this ledger cannot do: ``durable``, ``snapshots``, ``retention``, ``local_file``; it is left out where it is empty.
    """

    backend: str
    durability: str
    epoch: str
    head: int
    floor: int
    writable: bool
    queued: int
    size_bytes: int
    library: str
    lacks: tuple[str, ...] = ()
