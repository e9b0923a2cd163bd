"""The receipt publisher: an XPUB socket on ipc.  A lossy, fast hint; the ledger is the guarantee.

See docs/wire-protocol.md, "Published receipts".

Receipts go out as one message a commit on ``a/`` and one a session and commit on ``r/<adapter>/<session>/``, and only
where somebody subscribed, so that a busy broker pays for what is read.  Receipts that no ledger keeps go out one by one
on ``t/<adapter>/<session>/``, signals of app-servers on ``s/<adapter>/<thread>/``.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec
import zmq
from msgspec import Struct

from lifebus_transports.framing.frames import (
    ALL_TOPIC,
    BEACON_TOPIC,
    SIGNAL_BEACON_TOPIC,
    marker_topic,
    session_topic,
    signal_topic,
    tick_topic,
)
from lifebus_transports.messages.reads import Beacon, WireReceipt
from lifebus_transports.messages.signals import SignalBeacon, WireSignal
from lifebus_transports.zmq.socket import Message, SocketReader, make_socket, send_now
from lifebus_transports.zmq.subscribers import Subscribers, SubscriptionOutcome, hang_up, receive_subscription
from lifebus_transports.zmq.topics import MAX_TOPIC, Topics
from lifebus_transports.zmq.zap import DOMAIN

_MAX_ITEMS = 256
_MAX_SIGNAL_BYTES = 65_536  # a subscriber that does not read holds up to 1,000 messages
_MAX_SUBSCRIPTIONS_UNREAD = 4
_MAX_BEACON_PARTS = 1_024


class PublishedReceipt(Protocol):
    """What is published of a recorded receipt (fulfilled by `lifebus_broker.ports.StoredReceipt`)."""

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


class PublishedSignal(Protocol):
    """What is published of a recorded signal (fulfilled by `lifebus_broker.signals.log.StoredSignal`)."""

    @property
    def sequence(self) -> int:
        """Its number within its thread."""
        ...

    @property
    def event_type(self) -> str:
        """Its event."""
        ...

    @property
    def signal(self) -> bytes:
        """Its envelope as JSON."""
        ...


class PublishCounters(Struct):
    """What the publisher sent since it began."""

    messages: int = 0
    receipts: int = 0
    signals: int = 0
    malformed: int = 0
    cut_off: int = 0


class ReceiptPublisher:
    """Publishes on `address` until closed.  Never blocks: a subscriber that does not read loses messages and knows.

    A subscriber of more topics than `Subscribers` allows is hung up on.  `first_beacon` must lie beyond the numbers of
    every earlier publisher at this address, so that a subscriber which comes back after a restart sees that it missed
    something.
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
        self._topics = Topics(b"r/", ALL_TOPIC)
        self._signal_topics = Topics(b"s/")
        self._subscribers = Subscribers()
        self._path = address.removeprefix("ipc://")
        self._beacons = self._signal_beacons = first_beacon - 1
        self._socket = make_socket(context, zmq.XPUB, max_bytes=MAX_TOPIC, domain=DOMAIN)
        self._socket.setsockopt(zmq.SNDHWM, max_queued)
        # libzmq takes in all subscriptions that wait before it returns to us: few may wait, or nobody could stop it.
        self._socket.setsockopt(zmq.RCVHWM, _MAX_SUBSCRIPTIONS_UNREAD)
        self._socket.bind(address)
        self._reader = SocketReader(self._socket, self._subscription, receive=receive_subscription)

    def close(self) -> None:
        """Close; messages already handed to ZeroMQ leave within its linger of 200 ms, later ones are dropped."""
        self._closed = True
        self._reader.close()
        self._socket.close()

    def publish(self, epoch: str, stored: Sequence[PublishedReceipt]) -> None:
        """Publish the receipts of one commit, in position order."""
        self.counters.receipts += len(stored)
        if self._topics.is_subscribed(ALL_TOPIC):
            # A commit may hold thousands of receipts; a subscriber reads them in pieces of bounded size.
            for start in range(0, len(stored), _MAX_ITEMS):
                self._send_receipts(ALL_TOPIC, epoch, stored[start : start + _MAX_ITEMS])
        if self._topics.has_subscribers():
            for topic, group in _by_topic(stored).items():
                if self._topics.is_subscribed(topic):
                    self._send_receipts(topic, epoch, group)

    def publish_transient(self, epoch: str, stored: PublishedReceipt) -> None:
        """Publish a receipt that no ledger keeps, of position 0, on a topic of its own (docs/contract.md 2.6).

        Followers of the ledger do not get it: its missing position would look like a hole.
        """
        self._send_receipts(tick_topic(stored.adapter_id, stored.harness_session_id), epoch, (stored,))

    def publish_marker(self, epoch: str, nonce: str) -> None:
        """Publish a joining subscriber's marker: it arrives behind everything published before."""
        self._send(marker_topic(nonce), epoch, b"\x90")

    def publish_beacon(
        self, epoch: str, *, head: int, floor: int, sessions: dict[tuple[str, str], int], closing: bool = False
    ) -> None:
        """Publish the heads; `sessions` holds the newest sequence of each session that changed.

        Who follows the whole ledger goes by its head: the sessions are named only where somebody follows one.
        """
        # Thousands of sessions may change in a second; their names are the largest part of a beacon.
        changed = sessions if self._topics.has_subscribers() else {}
        for part in _parts({session_topic(*key): sequence for key, sequence in changed.items()}):
            # Each part is a beacon of its own, with its own number: a lost part shows as a hole.
            self._beacons += 1
            beacon = Beacon(epoch=epoch, number=self._beacons, head=head, floor=floor, closing=closing, sessions=part)
            self._send(BEACON_TOPIC, epoch, msgspec.msgpack.encode(beacon))

    def publish_signals(self, epoch: str, adapter_id: str, thread: str, signals: Sequence[PublishedSignal]) -> None:
        """Publish signals of one thread, in sequence order; those without a subscriber are not encoded."""
        self.counters.signals += len(signals)
        topic = signal_topic(adapter_id, thread)
        if self._signal_topics.is_subscribed(topic):
            for part in _portions(signals):
                self._send(topic, epoch, msgspec.msgpack.encode(part))

    def publish_signal_beacon(self, epoch: str, *, threads: dict[tuple[str, str], int], closing: bool = False) -> None:
        """Publish the newest sequence of each thread that changed, named by adapter and thread, if anybody follows."""
        changed = threads if self._signal_topics.has_subscribers() else {}
        for part in _parts({signal_topic(*key): sequence for key, sequence in changed.items()}):
            self._signal_beacons += 1
            beacon = SignalBeacon(epoch=epoch, number=self._signal_beacons, closing=closing, threads=part)
            self._send(SIGNAL_BEACON_TOPIC, epoch, msgspec.msgpack.encode(beacon))

    def _send_receipts(self, topic: bytes, epoch: str, stored: Iterable[PublishedReceipt]) -> None:
        wire = [WireReceipt(receipt.position, receipt.sequence, receipt.receipt) for receipt in stored]
        self._send(topic, epoch, msgspec.msgpack.encode(wire))

    def _send(self, topic: bytes, epoch: str, body: bytes) -> None:
        if self._closed:
            return  # a listener ran in the same turn of the loop as `close`: subscribers find the receipt in the ledger
        # XPUB drops for a subscriber whose queue is full and never refuses, so no subscriber holds up the others.
        send_now(self._socket, topic, epoch.encode("ascii"), body)
        self.counters.messages += 1
        self._reader.poke()

    def _subscription(self, message: Message) -> None:
        *frames, connection, descriptor = message
        outcome = self._subscribers.judge(connection, frames[0]) if connection else SubscriptionOutcome.ADMITTED
        if outcome is SubscriptionOutcome.EXCEEDED:
            self.counters.cut_off += 1
            hang_up(descriptor, self._path)
        elif outcome is SubscriptionOutcome.ADMITTED and not self._update(frames):
            self.counters.malformed += 1

    def _update(self, frames: Message) -> bool:
        """Take a subscription; False when it is none, or one too many."""
        return len(frames) == 1 and self._topics.update(frames[0]) and self._signal_topics.update(frames[0])


def _by_topic(stored: Sequence[PublishedReceipt]) -> dict[bytes, list[PublishedReceipt]]:
    groups: dict[bytes, list[PublishedReceipt]] = {}
    for receipt in stored:
        groups.setdefault(session_topic(receipt.adapter_id, receipt.harness_session_id), []).append(receipt)
    return groups


def _parts(heads: dict[bytes, int]) -> Iterator[dict[str, int]]:
    """Cut the heads of a beacon into messages; there is always one."""
    items = [(topic.decode("ascii"), head) for topic, head in heads.items()]
    for start in range(0, max(1, len(items)), _MAX_BEACON_PARTS):
        yield dict(items[start : start + _MAX_BEACON_PARTS])


def _portions(signals: Sequence[PublishedSignal]) -> Iterator[list[WireSignal]]:
    """Cut signals into messages of a bounded number and size."""
    part: list[WireSignal] = []
    size = 0
    for signal in signals:
        size += len(signal.signal)
        if part and (size > _MAX_SIGNAL_BYTES or len(part) >= _MAX_ITEMS):
            yield part
            part, size = [], len(signal.signal)
        part.append(WireSignal(signal.sequence, signal.event_type, signal.signal))
    if part:
        yield part
