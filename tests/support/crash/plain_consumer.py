"""Who consumes under a name with plain ZeroMQ and MessagePack, and a book of what consumers were given and settled."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import zmq

from support.crash.oracle import request
from support.patience import PATIENCE_MS

IN_FLIGHT = 16


class Book:
    """What one consumer was given, how much of it `again`, and what it was told is settled."""

    def __init__(self) -> None:
        self.settled: set[int] = set()
        self.again = 0
        self.faults: list[str] = []
        self._tries = Counter[int]()

    def given(self, position: int, attempt: int) -> None:
        """Note a delivery; it breaks the promise after the acknowledgement, or where its number does not grow."""
        if position in self.settled:
            self.faults.append(f"{position} came as try {attempt} after its acknowledgement was answered")
        elif attempt <= self._tries[position]:
            self.faults.append(f"{position} came as try {attempt} after try {self._tries[position]}")
        self.again += attempt > 1
        self._tries[position] = attempt


class PlainConsumer:
    """Consumes as docs/wire-protocol.md has it, a connection for each life of the broker.

    What it was given and could not settle it settles with the next broker, while it fetches already.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.book = Book()
        self.fed = 0
        self._name = name
        self._random = random.Random(seed)
        self._epoch = ""
        self._held: list[int] = []
        self._asked: dict[int, tuple[str, int]] = {}
        self._numbers = 0

    def live(self, runtime_dir: Path, receipts: int, answers: int, kill: Callable[[], None] | None) -> None:
        """Record receipts, consume until so many acknowledgements are answered, and kill; blocks.

        Without `kill` it consumes until nothing is left.
        """
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
            socket.connect(f"ipc://{runtime_dir / 'requests.ipc'}")
            self._asked.clear()
            self._feed(socket, receipts)
            self._send(socket, "consume", client_id="plain", settings={"max_in_flight": IN_FLIGHT}, after=0)
            self._take(socket)
            self._fetch(socket)
            late = self._random.sample(self._held, len(self._held))
            for _ in range(self._random.randint(0, len(late))):
                self._settle(socket, late.pop())
            self._take(socket)
            for position in late:  # what the fetch may have brought once more by now
                self._settle(socket, position)
            enough = len(self.book.settled) + answers
            while len(self.book.settled) < (self.fed if kill is None else min(enough, self.fed)):
                assert socket.poll(PATIENCE_MS), "no answer"
                self._take(socket)
            if kill is not None:
                if socket.poll(self._random.randrange(4)):
                    self._take(socket)
                kill()
            while socket.poll(0):
                self._take(socket, dead=True)

    def _feed(self, socket: "zmq.Socket[bytes]", receipts: int) -> None:
        emissions = [{"request": request(self.fed + number, "s1")} for number in range(receipts)]
        self.fed += receipts
        self._send(socket, "emit", named=False, client_id="plain", emissions=emissions)
        self._take(socket)

    def _fetch(self, socket: "zmq.Socket[bytes]") -> None:
        self._send(socket, "fetch", limit=IN_FLIGHT, wait_ms=30_000)

    def _settle(self, socket: "zmq.Socket[bytes]", position: int) -> None:
        self._send(socket, "ack", about=position, epoch=self._epoch, positions=[position])

    def _send(
        self, socket: "zmq.Socket[bytes]", verb: str, *, named: bool = True, about: int = 0, **body: object
    ) -> None:
        self._numbers += 1
        self._asked[self._numbers] = (verb, about)
        whole = {"cursor": self._name, **body} if named else body
        socket.send_multipart([b"\x01" + self._numbers.to_bytes(8, "big") + verb.encode(), msgpack.packb(whole)])

    def _take(self, socket: "zmq.Socket[bytes]", *, dead: bool = False) -> None:
        """Read one answer; ask for more unless the broker is `dead`."""
        header, raw = socket.recv_multipart()
        verb, about = self._asked.pop(int.from_bytes(header[1:9], "big"))
        body: dict[str, Any] = msgpack.unpackb(raw)
        assert header[9:] == b"ok", (verb, body)
        if verb == "ack":
            self.book.settled.add(about)
            self._held = [position for position in self._held if position != about]
        if verb == "fetch":
            self._epoch = body["epoch"]
            for position, _, attempt, _ in body.get("deliveries", ()):
                self.book.given(position, attempt)
                self._held += [position] if position not in self._held else []
                if not dead:
                    self._settle(socket, position)
            if not dead:
                self._fetch(socket)
