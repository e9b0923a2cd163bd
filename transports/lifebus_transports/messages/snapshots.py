"""The bodies of the verbs that save, and that let pins change (docs/ledger.md, "Snapshots").

`resume` takes and gives what `state` does (`lifebus_transports.messages.state`).
"""

from typing import Annotated, Literal

from msgspec import Meta

from lifebus_contract.fields import Count, Detail, Document

SaveTypeName = Literal["SCENE", "SESSION", "CAMPAIGN"]
"""The save types, each a superset of the one before."""

SnapshotId = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$(?!\n)")]
"""The id of a snapshot: 16 lower-case hex digits."""

_Reason = Annotated[str, Meta(min_length=1, max_length=1024)]


class Save(Document, frozen=True, kw_only=True):
    """`save`: take a snapshot now."""

    save_type: SaveTypeName


class SaveAnswer(Document, frozen=True, kw_only=True):
    """The answer to `save`: the snapshot, the position it is of, and whether it was not kept already."""

    snapshot_id: SnapshotId
    save_type: SaveTypeName
    position: Count
    new: bool


class Revise(Document, frozen=True, kw_only=True):
    """`revise`: write down that the pins of a snapshot may be what they are today, and why."""

    snapshot_id: SnapshotId
    reason: _Reason


class ReviseAnswer(Document, frozen=True, kw_only=True):
    """The answer to `revise`: the number of the record, who revised, and what has changed, in words."""

    number: Count
    actor: str
    changes: tuple[Detail, ...]
