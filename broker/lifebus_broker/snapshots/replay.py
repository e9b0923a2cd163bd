"""Replays a whole log once, and checks on the way whether snapshots of it are what it says (docs/ledger.md SL-G2)."""

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Final

from lifebus_broker.canonical_json import canonical
from lifebus_broker.ledger.log import LogLine, LogSource, encode_line
from lifebus_broker.snapshots.frozen import thaw
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_broker.snapshots.segment import BadLine, first_changed_line, read_segment
from lifebus_broker.snapshots.snapshot import SaveSnapshot
from lifebus_broker.snapshots.supplement import Supplement
from lifebus_broker.state.stores import Stores, load_base, pending_of, reduce_event, store_digests
from lifebus_contract import BrokerBusy, LifebusError

OnProgress = Callable[[int, int], None]
"""Called now and then with how many lines are done, and of how many."""

_REPORT_EVERY: Final = 4096


class LogProof:
    """One pass over a log.  `stores` are those after the last line that followed; `faults` what is wrong, in words."""

    def __init__(
        self,
        source: LogSource,
        snapshots: Iterable[SaveSnapshot] = (),
        supplement: Callable[[SaveSnapshot], Supplement | RefusedFile | None] | None = None,
    ) -> None:
        """Replay nothing yet; `supplement` reads what was kept beside a snapshot."""
        self.stores = Stores()
        self.faults: list[str] = []
        self._source = source
        self._checks = [_SnapshotCheck(one, source, supplement or _no_supplement) for one in snapshots]

    def run(self, progress: OnProgress) -> None:
        """Apply the base and every line; stop at the first that does not follow.

        Raises:
            BrokerBusy: lines were pruned meanwhile; begin again.
        """
        floor, head = self._source.floor, self._source.head
        if self._begin(floor):
            self._replay(floor, head, progress)
        # Lines that were pruned under way look missing, although nothing is wrong.
        if self._source.floor != floor:
            raise BrokerBusy("receipts were pruned while they were read; try again", code="busy")
        self.faults += [fault for one in self._checks for fault in one.faults(floor, self.stores.position)]

    def _begin(self, floor: int) -> bool:
        """Take the stores before the first line; return whether there are any."""
        try:
            base = self._source.base()
            if base is not None:
                self.stores = load_base(base)
        except LifebusError as fault:
            self.faults.append(f"base: {fault.detail}")
            return False
        if self.stores.position != floor:
            self.faults.append(f"base: it is one of position {self.stores.position}, and the floor is {floor}")
            return False
        return True

    def _replay(self, floor: int, head: int, progress: OnProgress) -> None:
        try:
            for line in read_segment(self._source, floor, head):
                reduce_event(self.stores, line)
                for check in self._checks:
                    check.visit(line, self.stores)
                if line.position % _REPORT_EVERY == 0:
                    progress(line.position - floor, head - floor)
        except BadLine as fault:
            self.faults.append(f"fold: row {fault.position}: {fault}")
        except LifebusError as fault:
            self.faults.append(f"fold: {fault.detail}")


class _SnapshotCheck:
    """Compares a log, line by line, with what a snapshot says of it."""

    def __init__(
        self,
        snapshot: SaveSnapshot,
        source: LogSource,
        supplement: Callable[[SaveSnapshot], Supplement | RefusedFile | None],
    ) -> None:
        self._snapshot, self._source, self._supplement = snapshot, source, supplement
        self._first, self._last = snapshot.event_log_range
        self._hash = sha256()
        self._wrong: list[str] = []

    def visit(self, line: LogLine, stores: Stores) -> None:
        """Take the next line and the stores after it."""
        if self._first <= line.position <= self._last:
            self._hash.update(encode_line(line))
            if line.position == self._last:
                self._compare(stores)

    def faults(self, floor: int, reached: int) -> Iterator[str]:
        """Yield what is wrong with the snapshot; one of what was pruned, or never reached, cannot be checked."""
        if self._first <= floor < self._last or self._last > reached:
            return
        if self._wrong and (changed := self._first_changed()) is not None:
            yield f"snapshot {self._snapshot.snapshot_id}, position {changed.position}: {changed}"
            return
        for what in self._wrong:
            yield f"snapshot {self._snapshot.snapshot_id}, position {self._last}: its {what} is not what the log says"

    def _first_changed(self) -> BadLine | None:
        """Return the first line that is another one than at the save, None where that is not known."""
        found = self._supplement(self._snapshot)
        return first_changed_line(self._source, found, self._last) if isinstance(found, Supplement) else None

    def _compare(self, stores: Stores) -> None:
        snapshot = self._snapshot
        digests = store_digests(stores, thaw(snapshot.pins_snapshot))
        found = {name: getattr(digests, name) for name in digests.__struct_fields__}
        found["event_log_hash"] = self._hash.hexdigest()
        self._wrong = [name for name, value in sorted(found.items()) if getattr(snapshot, name) != value]
        if canonical(thaw(snapshot.pending_state)) != canonical(pending_of(stores)):
            self._wrong.append("pending_state")


def _no_supplement(_: SaveSnapshot) -> None:
    """Find none."""
