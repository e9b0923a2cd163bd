"""The receipt door: an XPUB socket on ipc.  A lossy, fast hint; the ledger is the guarantee (design 4.6).

Rows go out as one message a commit on ``a/`` and one a session and commit on ``r/<adapter>/<session>/``, and only
where somebody subscribed, so that a busy broker pays for what is read.  Receipts that no ledger keeps go out one by one
on ``t/<adapter>/<session>/``.

Above: the daemon.  Below: wire, messages, zmq_socket.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import zmq

from lifebus_transports.messages import Beacon, RowInfo
from lifebus_transports.wire import ALL_TOPIC, BEACON_TOPIC, marker_topic, session_topic, tick_topic
from lifebus_transports.zap import DOMAIN
from lifebus_transports.zmq_socket import Frames, SocketReader, make_socket, send_now

__all__ = ["PublishCounters", "PublishedRow", "ReceiptDoor", "Topics"]

_MAX_TOPIC = 8_192  # two percent-encoded identifiers of 256 characters fit
_MAX_ROWS = 256
_SESSION_DELIMITERS = 3
_SESSIONS = b"r/"
_ABOVE_SESSIONS = frozenset((b"", b"a", ALL_TOPIC, b"r"))
_MAX_WHOLE = 65_536
_MAX_PREFIXES = 1_024
_MAX_BEACON_SESSIONS = 1_024


class PublishedRow(Protocol):
    """What the door needs of a recorded receipt (fulfilled by `lifebus_broker.ports.Row`)."""

    @property
    def position(self) -> int:
        """Its place in the ledger's order."""
        ...

    @property
    def adapter_id(self) -> str:
        """The adapter it is about."""
        ...

    @property
    def harness_session_id(self) -> str | None:
        """The session it is about."""
        ...

    @property
    def sequence(self) -> int | None:
        """Its number within the session."""
        ...

    @property
    def receipt(self) -> bytes:
        """Its canonical JSON."""
        ...


class Topics:
    """Which receipt topics somebody wants, so that nothing is encoded for nobody.

    Topics of whole sessions and prefixes of topics are kept apart, because a prefix costs a look at every message.
    Both are bounded: who comes too late is not served live, notices by the beacons, and reads the ledger instead.
    """

    def __init__(self) -> None:
        self._whole: set[bytes] = set()
        self._prefixes: set[bytes] = set()

    def note(self, message: bytes) -> bool:
        """Take a subscription message of an XPUB socket; False when it is not one, is too long or one too many."""
        if not message or message[0] > 1 or len(message) > _MAX_TOPIC:
            return False
        topic = message[1:]
        if not topic.startswith(_SESSIONS) and topic not in _ABOVE_SESSIONS:
            return True  # beacons and markers are published whoever listens
        whole = topic.count(b"/") == _SESSION_DELIMITERS and topic.endswith(b"/")
        group, bound = (self._whole, _MAX_WHOLE) if whole else (self._prefixes, _MAX_PREFIXES)
        if message[0] == 0:
            group.discard(topic)
        elif len(group) < bound:
            group.add(topic)
        return message[0] == 0 or topic in group

    def wants(self, topic: bytes) -> bool:
        """Whether a message on exactly this topic would reach anybody."""
        return topic in self._whole or any(topic.startswith(prefix) for prefix in self._prefixes)

    def wants_sessions(self) -> bool:
        """Whether any session topic is wanted."""
        return bool(self._whole) or any(prefix not in {b"a", ALL_TOPIC} for prefix in self._prefixes)


@dataclass(slots=True)
class PublishCounters:
    """What left the door since it opened."""

    messages: int = 0
    receipts: int = 0
    malformed: int = 0


class ReceiptDoor:
    """Publishes on `address` until closed.  Never blocks: a subscriber that does not read loses messages and knows.

    `first_beacon` must lie beyond the numbers of every earlier door at this address, so that a subscriber which comes
    back after a restart sees that it missed something.
    """

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        address: str,
        *,
        max_queued: int = 1_000,
        first_beacon: int = 1,
    ) -> None:
        self.counters = PublishCounters()
        self._closed = False
        self._topics = Topics()
        self._beacons = first_beacon - 1
        self._socket = make_socket(context, zmq.XPUB, max_bytes=_MAX_TOPIC, domain=DOMAIN)
        self._socket.setsockopt(zmq.SNDHWM, max_queued)
        self._socket.bind(address)
        self._reader = SocketReader(self._socket, self._subscription)

    def close(self) -> None:
        """Close; messages already handed to ZeroMQ leave within its linger of 200 ms, later ones are dropped."""
        self._closed = True
        self._reader.close()
        self._socket.close()

    def publish(self, epoch: str, rows: Sequence[PublishedRow]) -> None:
        """Publish the rows of one commit, in position order."""
        self.counters.receipts += len(rows)
        if self._topics.wants(ALL_TOPIC):
            for start in range(0, len(rows), _MAX_ROWS):
                self._send_rows(ALL_TOPIC, epoch, rows[start : start + _MAX_ROWS])
        if self._topics.wants_sessions():
            for topic, group in _by_session(rows).items():
                if self._topics.wants(topic):
                    self._send_rows(topic, epoch, group)

    def publish_transient(self, epoch: str, row: PublishedRow) -> None:
        """Publish a receipt that no ledger keeps, of position 0, on a topic of its own (design 3.12).

        Whoever follows the ledger is not told, and so does not take it for a hole.
        """
        self._send_rows(tick_topic(row.adapter_id, row.harness_session_id), epoch, (row,))

    def publish_marker(self, epoch: str, nonce: str) -> None:
        """Publish a joining subscriber's marker: it arrives behind everything published before."""
        self._send(marker_topic(nonce), epoch, b"\x90")

    def publish_beacon(
        self, epoch: str, *, head: int, floor: int, sessions: dict[tuple[str, str], int], closing: bool = False
    ) -> None:
        """Publish the heads; `sessions` holds the newest sequence of each session that changed.

        Who follows the whole ledger goes by its head: the sessions are named only where somebody follows one.
        """
        changed = sessions if self._topics.wants_sessions() else {}
        items = [(session_topic(*key).decode("ascii"), sequence) for key, sequence in changed.items()]
        for start in range(0, max(1, len(items)), _MAX_BEACON_SESSIONS):
            self._beacons += 1
            part = dict(items[start : start + _MAX_BEACON_SESSIONS])
            beacon = Beacon(epoch=epoch, number=self._beacons, head=head, floor=floor, closing=closing, sessions=part)
            self._send(BEACON_TOPIC, epoch, msgspec.msgpack.encode(beacon))

    def _send_rows(self, topic: bytes, epoch: str, rows: Iterable[PublishedRow]) -> None:
        body = [RowInfo(row.position, row.sequence, row.receipt) for row in rows]
        self._send(topic, epoch, msgspec.msgpack.encode(body))

    def _send(self, topic: bytes, epoch: str, body: bytes) -> None:
        if self._closed:
            return  # whoever woke in the turn of the loop in which the door closed: the ledger has it
        send_now(self._socket, topic, epoch.encode("ascii"), body)
        self.counters.messages += 1
        self._reader.poke()

    def _subscription(self, frames: Frames) -> None:
        if len(frames) != 1 or not self._topics.note(frames[0]):
            self.counters.malformed += 1


def _by_session(rows: Sequence[PublishedRow]) -> dict[bytes, list[PublishedRow]]:
    groups: dict[bytes, list[PublishedRow]] = {}
    for row in rows:
        groups.setdefault(session_topic(row.adapter_id, row.harness_session_id), []).append(row)
    return groups
