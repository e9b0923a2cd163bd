"""Records that pins may change, in the name of the user who runs this process (docs/ledger.md, "Pins")."""

import os
import pwd
from collections.abc import Iterable

from lifebus_broker.ledger.records import append_records
from lifebus_broker.ports import Journal, NewRecord, Record
from lifebus_broker.snapshots.frozen import FrozenMap
from lifebus_broker.snapshots.revisions import REVISIONS, PinMismatch, Revision, encode_revision, revise
from lifebus_broker.snapshots.snapshot import SaveSnapshot
from lifebus_contract import InvalidRequest
from lifebus_transports.messages.snapshots import ReviseAnswer


def plan_revision(snapshot: SaveSnapshot, today: FrozenMap, notes: Iterable[Record], reason: str) -> Revision:
    """Return the record that lets the snapshot boot with today's pins, in the name of who runs this process.

    Raises:
        InvalidRequest: nothing has to be revised, or it cannot be.
    """
    try:
        return revise(snapshot.pins_snapshot, today, notes, reason=reason, actor=actor_here())
    except (PinMismatch, ValueError) as fault:
        raise InvalidRequest(f"no revision was written: {fault}", code="no_revision") from None


async def write_revision(journal: Journal, revision: Revision) -> ReviseAnswer:
    """Write a revision into the journal, and return once it is durable.

    Raises:
        LifebusError: the disk is full, or the ledger is closed.
    """
    (note,) = await append_records(journal, [NewRecord(REVISIONS, encode_revision(revision))])
    changes = tuple(str(change)[:1024] for change in revision.changes)
    return ReviseAnswer(number=note.number, actor=revision.actor, changes=changes)


def actor_here() -> str:
    """Return who runs this process, as a revision names it."""
    # the effective user, whom files and locks know, and not a name from the environment
    user = os.geteuid()
    try:
        return f"{pwd.getpwuid(user).pw_name} (uid {user})"
    except KeyError:
        return f"uid {user}"
