"""A log that is held in memory, to be saved, tampered with and booted from; and the environment of the tests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lifebus_adapters import ADAPTERS
from lifebus_broker.ledger.log import LinkedRecord, LogLine, LogSource
from lifebus_broker.ledger.record_batch import record_link
from lifebus_broker.ports import Record
from lifebus_broker.snapshots.boot import Booted, cold_boot
from lifebus_broker.snapshots.capture import capture_snapshot, capture_supplement
from lifebus_broker.snapshots.compactions.naming import POLICIES
from lifebus_broker.snapshots.frozen import FrozenMap, freeze_map, thaw
from lifebus_broker.snapshots.pins import pins_of
from lifebus_broker.snapshots.revisions import REVISIONS, Revision, encode_revision
from lifebus_broker.snapshots.snapshot import SaveSnapshot, SaveType
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.snapshots.supplement import Supplement
from lifebus_broker.state.stores import REDUCER_VERSION, dump_stores
from lifebus_broker.state.stream_digests import NO_LINK
from support.histories import history, lines_of, replayed

PINS = pins_of(
    [adapter.registered.manifest for adapter in ADAPTERS.values()],
    reducer_version=REDUCER_VERSION,
    compaction_policies=POLICIES,
)
"""The pins of the tests' environment."""


@dataclass
class HeldLog:
    """Implements `log.LogSource`: `kept` are the lines behind `floor`, in whatever order a test left them."""

    kept: list[LogLine]
    floor: int = 0
    dump: bytes | None = None
    written: list[Record] = field(default_factory=list[Record])
    reads: int = 0

    @property
    def head(self) -> int:
        """The position of the last line, as many as there are."""
        return self.floor + len(self.kept)

    def base(self) -> bytes | None:
        """Return the dump at the floor."""
        return self.dump

    def lines(self, after: int, through: int) -> Iterator[LogLine]:
        """Return the lines that stand where those positions should."""
        self.reads += 1
        yield from self.kept[after - self.floor : through - self.floor]

    def records(self, prefix: str) -> Iterator[Record]:
        """Return the notes."""
        yield from (note for note in self.written if note.stream.startswith(prefix))

    def chain(self, stream: str) -> Iterator[LinkedRecord]:
        """Return the notes of one stream with the links that follow."""
        link = NO_LINK
        for note in self.written:
            if note.stream == stream:
                link = record_link(link, note.at_epoch_s, note.body)
                yield LinkedRecord(note, link)

    def prune(self, floor: int) -> "HeldLog":
        """Return the same log without the lines up to `floor`."""
        stores = replayed(self.kept[:floor])
        return HeldLog(self.kept[floor:], floor, dump_stores(stores), list(self.written))


def log_of(seed: int, count: int) -> HeldLog:
    """Return the log of a random history."""
    return HeldLog(lines_of(history(seed, count)))


def saved(log: LogSource, save_type: SaveType = SaveType.SESSION, pins: FrozenMap = PINS) -> SaveSnapshot:
    """Save at the end of a log."""
    follower = StateFollower(log)
    follower.advance()
    return capture_snapshot(save_type, follower, log, pins)


def supplemented(log: LogSource, save_type: SaveType = SaveType.SESSION) -> Supplement:
    """Return what a save at the end of a log keeps beside its snapshot."""
    follower = StateFollower(log)
    follower.advance()
    return capture_supplement(capture_snapshot(save_type, follower, log, PINS), follower, log)


def booted(snapshot: SaveSnapshot, log: LogSource, **options: Any) -> Booted:
    """Boot in the tests' environment, unless `options` has other pins."""
    pins = options.pop("pins", PINS)
    return cold_boot(snapshot, log, pins, log.records(REVISIONS), **options)


def with_pins(**changes: Any) -> FrozenMap:
    """Return the tests' pins with some of them changed."""
    return freeze_map({**thaw(PINS), **changes})


def revised(*steps: tuple[FrozenMap, FrozenMap], reason: str = "upgraded") -> Sequence[Record]:
    """Return the notes of revisions, one a step."""
    bodies = [encode_revision(Revision(before=a, after=b, reason=reason, actor="ada")) for a, b in steps]
    return [Record(REVISIONS, number, 0, body) for number, body in enumerate(bodies, 1)]
