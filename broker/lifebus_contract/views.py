"""The state of a ledger and of its sessions, as the broker returns it and as clients read it."""

from msgspec import Struct

from lifebus_contract.vocabulary import LifecycleEvent, ReceiptStatus


class SessionHead(Struct, frozen=True, kw_only=True):
    """What the state reducer knows of a session after its newest receipt (docs/ledger.md, "State")."""

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


class LedgerStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the ledger promises, and whether it takes writes now.

    `writable` is false while the disk is full; `durability` is ``none``, ``full`` or ``relaxed``.  `lacks` names what
    this ledger cannot do: ``durable``, ``snapshots``, ``retention``, ``local_file``.  `damaged` says of each receipt
    that was found to be damaged where it is and why.  Both are left out where they are empty.
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
