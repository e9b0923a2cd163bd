"""Mirror the receipts of some sessions into a JSON-lines file: each exactly once, and every session in order.

    python thread_sync.py mirror.jsonl codex/0000000b-b50b claude/b1946ac9

The broker remembers how far we are and hands out again what we did not acknowledge; the file remembers what it holds.
So this may be killed at any moment, between a write and its acknowledgement too, and started again.
"""

import fcntl
import json
import os
import sys
from pathlib import Path
from typing import Any

import lifebus

NAME = "thread-sync"
Session = tuple[str, str]


class Mirror:
    """The file: one receipt and its position a line.  `newest` is the last sequence and position of each session."""

    def __init__(self, path: Path) -> None:
        self.newest: dict[Session, tuple[int, int]] = {}
        self.gap_until = 0
        self.early: dict[Session, dict[int, lifebus.Delivery]] = {}
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        fcntl.flock(self.file, fcntl.LOCK_EX)  # one writer, even if an older one only stopped for a while
        whole = 0
        for line in path.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break  # we died within this write, and never acknowledged it
            self.learn(json.loads(line))
            whole += len(line)
        os.ftruncate(self.file, whole)

    def learn(self, line: dict[str, Any]) -> None:
        """Note what a line of the file says."""
        if "gap" in line:
            self.gap_until = line["gap"]["until"] or 0
        else:
            receipt = line["receipt"]
            session = (receipt["adapter_id"], receipt["harness_session_id"])
            self.newest[session] = (receipt["sequence"], line["position"])

    def write(self, lines: list[bytes]) -> None:
        """Append lines for good: when this returns, they are on the disk."""
        data = b"".join(lines)
        while data:
            data = data[os.write(self.file, data) :]
        os.fsync(self.file)
        for line in lines:
            self.learn(json.loads(line))

    def note_gap(self, gap: lifebus.Gap) -> None:
        """Say in the file that receipts are missing here."""
        self.write(
            [json.dumps({"gap": {"after": gap.after, "until": gap.until, "reason": gap.reason}}).encode() + b"\n"]
        )

    def take(self, deliveries: list[lifebus.Delivery]) -> list[lifebus.Delivery]:
        """Write what is new and in turn; return what the file holds now, and so may be acknowledged.

        What comes before its turn, because an earlier one is tried again, waits here unacknowledged.
        """
        lines: list[bytes] = []
        held: list[lifebus.Delivery] = []
        newest = dict(self.newest)
        waiting = list(reversed(deliveries))
        while waiting:
            one = waiting.pop()
            session, sequence = number_of(one.receipt)
            last, position = newest.get(session, (0, 0))
            if sequence > last + 1 and position >= self.gap_until:
                self.early.setdefault(session, {})[sequence] = one
                continue
            held.append(one)
            if sequence > last:
                lines.append(b'{"position":%d,"receipt":%s}\n' % (one.position, one.raw))
                newest[session] = (sequence, one.position)
                follower = self.early.get(session, {}).pop(sequence + 1, None)
                waiting += [follower] if follower else []
        if lines:
            self.write(lines)
        return held


def number_of(receipt: lifebus.Receipt) -> tuple[Session, int]:
    """Return the session of a receipt and its number there, which every receipt of a chosen session has."""
    if receipt.harness_session_id is None or receipt.sequence is None:
        raise ValueError(f"{receipt.receipt_id} has no number; see `ledger.backend`")
    return (receipt.adapter_id, receipt.harness_session_id), receipt.sequence


def session_named(text: str) -> Session:
    """Return the session that is written as adapter/id."""
    adapter, _, session = text.partition("/")
    return adapter, session


async def main(path: Path, sessions: list[Session]) -> None:
    mirror = Mirror(path)
    settings = lifebus.ConsumerSettings(sessions=tuple(sessions), max_in_flight=64, retry_ms=100)
    async with lifebus.connect(NAME) as bus:
        if not mirror.newest and NAME in {one.cursor for one in await bus.cursors.standing()}:
            await bus.cursors.reset(NAME, after=0)  # the file was taken away: begin again
        async with bus.consume(NAME, settings, since="start", gaps=mirror.note_gap) as deliveries:
            batch: list[lifebus.Delivery] = []
            async for item in deliveries:
                batch.append(item)
                if not deliveries.ready:  # one write and one acknowledgement for all that has come
                    await deliveries.ack(mirror.take(batch))
                    batch = []


if __name__ == "__main__":
    lifebus.run(main(Path(sys.argv[1]), [session_named(name) for name in sys.argv[2:]]))
