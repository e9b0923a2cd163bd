"""The two ways in which a ledger commits: by its thread, or by the event loop; tests of faults run through both."""

import os
from typing import Final

from lifebus_broker.ledger.sqlite.writing.disk_pace import DiskPace

THREAD, LOOP = "thread", "loop"
WAYS: Final = (THREAD, LOOP)
WAY: Final = "COMMIT_WAY"
"""The variable that tells a broker process its way; without it the disk decides."""


def take_way() -> None:
    """Commit as the environment says from now on, in a broker process."""
    if way := os.environ.get(WAY):
        DiskPace.is_quick = way == LOOP  # type: ignore[method-assign, assignment]
