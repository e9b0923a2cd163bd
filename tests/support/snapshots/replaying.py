"""Replay a log that comes on stdin, and print everything that is derived of it: for tests of where a program runs.

python replaying.py < LINES
"""

import sys

from lifebus_broker.ledger.log import decode_line
from lifebus_broker.snapshots.compactions.policy import build
from lifebus_broker.snapshots.compactions.recap import SessionRecap
from lifebus_broker.snapshots.snapshot import SaveType, encode_snapshot
from lifebus_broker.state.stores import Stores, dump_stores
from support.histories import replayed
from support.snapshots.logs import HeldLog, saved


def derived(log: bytes) -> bytes:
    """Return the dump of the stores, the recap of each session and a snapshot of each type, one a line."""
    lines = [decode_line(line) for line in log.splitlines(keepends=True)]
    stores: Stores = replayed(lines)
    recaps = [build(SessionRecap(), stores, handles).output_bytes for handles in SessionRecap().inputs(stores)]
    snapshots = [encode_snapshot(saved(HeldLog(lines), each)) for each in SaveType]
    return b"\n".join([dump_stores(stores), *recaps, *snapshots])


if __name__ == "__main__":
    sys.stdout.buffer.write(derived(sys.stdin.buffer.read()))
