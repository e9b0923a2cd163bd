"""A broker that is killed at the append of an answer: `DIE` says `before` it is handed to the ledger, or `after` it.

``after`` is once it is durable, and before anybody hears of it.  `DIE_OF` is the question whose answer it is.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from lifebus_broker.ledger.sqlite.journal import SqliteJournal
from lifebus_broker.ports import NewRecord, Record, Refusal
from support.broker_process import main

append = SqliteJournal.append


def die(_: object = None) -> None:
    """End as a process does that is killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def dying(
    self: SqliteJournal, records: Sequence[NewRecord], done: Callable[[list[Record] | Refusal], None]
) -> Refusal | None:
    """Append as always, but for the one answer."""
    ours = f"question/{os.environ.get('DIE_OF')}"
    if any(one.stream == ours and b'"answered"' in one.body for one in records):
        if os.environ["DIE"] == "before":
            die()
        if os.environ["DIE"] == "after":
            done = die
    return append(self, records, done)


SqliteJournal.append = dying  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
