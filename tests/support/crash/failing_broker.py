"""A broker one of whose writes to its ledger fails.

They are counted from the first record of a job or a transcript on, or from the first receipt of the client ARMED_BY.
"""

import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from lifebus_broker.ledger.sqlite.journal import SqliteJournal
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import AppendResult, NewReceipt, NewRecord, Record, Refusal
from support.broker_process import main
from support.crash.system_calls import FailingCall

append, append_receipts = SqliteJournal.append, SqliteLedger.append
client_id = os.environ.get("ARMED_BY")
stack = ExitStack()
armed: list[FailingCall] = []


def arm() -> None:
    if not armed:
        armed.append(FailingCall("pwrite64", int(os.environ["FAIL_AT"]), errno.EIO))
        stack.enter_context(armed[0].installed())


def arming(
    self: SqliteJournal, records: Sequence[NewRecord], done: Callable[[list[Record] | Refusal], None]
) -> Refusal | None:
    if client_id is None and any(one.stream.startswith(("job/", "transcript/")) for one in records):
        arm()
    return append(self, records, done)


def arming_receipts(
    self: SqliteLedger, receipts: Sequence[NewReceipt], done: Callable[[list[AppendResult]], None]
) -> Refusal | None:
    if any(one.receipt.client_id == client_id for one in receipts):
        arm()
    return append_receipts(self, receipts, done)


SqliteJournal.append = arming  # type: ignore[method-assign]
SqliteLedger.append = arming_receipts  # type: ignore[method-assign]
sys.exit(main(int(sys.argv[1])))
