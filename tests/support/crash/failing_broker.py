"""A broker one of whose writes to its ledger fails, counted from the first record of a job or a transcript on."""

import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from lifebus_broker.ledger.sqlite.journal import SqliteJournal
from lifebus_broker.ports import NewRecord, Record, Refusal
from support.broker_process import main
from support.crash.system_calls import FailingCall

append = SqliteJournal.append
stack = ExitStack()
armed: list[FailingCall] = []


def arming(
    self: SqliteJournal, records: Sequence[NewRecord], done: Callable[[list[Record] | Refusal], None]
) -> Refusal | None:
    if not armed and any(one.stream.startswith(("job/", "transcript/")) for one in records):
        armed.append(FailingCall("pwrite64", int(os.environ["FAIL_AT"]), errno.EIO))
        stack.enter_context(armed[0].installed())
    return append(self, records, done)


SqliteJournal.append = arming  # type: ignore[method-assign]
sys.exit(main(int(sys.argv[1])))
