"""`state_cache@1`: the stores after every 16,384th receipt, so that a start reads what came since and no more.

A cache is named after the line of the log at its position, so that one of another log is never even looked for.
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from lifebus_broker.ledger.log import LogLine, LogSource
from lifebus_broker.snapshots.compactions.compaction import Purpose, compaction_id_of
from lifebus_broker.snapshots.compactions.handles import handle_of, log_handle
from lifebus_broker.state.receipt_view import read_receipt
from lifebus_broker.state.stores import Stores, dump_stores
from lifebus_broker.state.stream_digests import Stream, StreamKey

CACHE_EVERY: Final = 16_384
"""Positions between two state caches; a multiple of it is a boundary."""


class StateCache:
    """The policy (`policy.Policy`): at a boundary, all that the broker knows; nothing of it may be mentioned."""

    policy_id: ClassVar[str] = "state_cache@1"
    purpose: ClassVar[Purpose] = Purpose.CONTEXT_CACHE

    def inputs(self, stores: Stores) -> Iterator[tuple[str, ...]]:
        """Yield the handles of the cache of these stores, if they stand at a boundary."""
        if stores.position and boundary(stores.position) == stores.position:
            # Exactly one stream got the receipt at that position; its link stands for all before.
            key, stream = next(item for item in stores.facts.items() if item[1].position == stores.position)
            yield _handles(key, stream)

    def output(self, stores: Stores, handles: tuple[str, ...]) -> bytes:  # noqa: ARG002  as the protocol has it
        """Return the dump of the stores."""
        return dump_stores(stores)

    def mentionable(self, handles: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG002  as the protocol has it
        """Return nothing."""
        return ()


def boundary(position: int) -> int:
    """Return the newest boundary at or before a position, 0 before the first."""
    return position - position % CACHE_EVERY


def boundaries(floor: int, through: int) -> range:
    """Return the boundaries behind the floor up to a position, the newest first."""
    return range(boundary(through), floor, -CACHE_EVERY)


def handles_at(line: LogLine) -> tuple[str, ...]:
    """Return the handles of the cache after a line that stands at a boundary."""
    receipt = read_receipt(line.receipt, line.position)
    stream = Stream(line.position, receipt.sequence or 0, bytes.fromhex(line.link))
    return _handles((receipt.adapter_id, receipt.harness_session_id), stream)


def cache_id_at(source: LogSource, position: int) -> str | None:
    """Return the name of the cache at a boundary of a log, None where the log does not reach there any more, or yet."""
    if not source.floor < position <= source.head:
        return None
    # One line is read, and no cache is opened, to know its name.
    line = next(source.lines(position - 1, position), None)
    return None if line is None else compaction_id_of(StateCache.purpose, StateCache.policy_id, handles_at(line))


def _handles(key: StreamKey, newest: Stream) -> tuple[str, ...]:
    return tuple(sorted((handle_of(key, newest), log_handle(newest.position))))
