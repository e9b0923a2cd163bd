"""Finds which line of a log is not the one that was saved, as far as can be known (docs/ledger.md, "Cold boot")."""

from typing import Final

from lifebus_broker.ledger.log import LogSource
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_broker.snapshots.segment import BadLine, first_bad_line, first_changed_line
from lifebus_broker.snapshots.supplement import Supplement
from lifebus_broker.state.stores import Stores

_RELINKED: Final = (
    "every line follows from those before it, so one was changed and the rest of its stream linked anew;"
    " which it was cannot be said, as"
)


def locate_change(
    before: Stores, source: LogSource, through: int, supplement: Supplement | RefusedFile | None
) -> BadLine | str:
    """Return the first line up to a position that was changed, or why it cannot be said which one it is.

    `before` are the stores before the lines, and change; `supplement` is what the save kept beside its snapshot.
    """
    bad = first_bad_line(before, source, through)
    if not isinstance(supplement, Supplement):
        return bad or f"{_RELINKED} {_why_without(supplement)}"
    changed = first_changed_line(source, supplement, through)
    # Whoever linked anew what follows a changed line shifted the first break of the chain, or removed it.
    if changed is not None and (bad is None or changed.position < bad.position):
        return changed
    return bad or f"{_RELINKED} only lines from {supplement.first} on have a digest, and those are as they were"


def _why_without(supplement: RefusedFile | None) -> str:
    if supplement is None:
        return "nothing beside this snapshot has a digest of each line"
    return f"{supplement.name} cannot be used: {supplement.why}"
