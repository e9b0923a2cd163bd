"""Who knows from outside what a ledger must hold: it asks over the real door and writes down every answer.

Plain ZeroMQ and MessagePack.  What was sent and what was acknowledged is also in a file of its own, synced before
the next message leaves: after a crash of the machine that file tells what must be there.
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgpack
import zmq

from support.crash.ledger_file import Recorded
from support.patience import PATIENCE_MS

SESSIONS = ("s1", "s2", "s3", "s4", "s5")
SIZES = (64, 24, 24, 7, 1, 1, 1, 1, 1, 1)
"""How many requests each lane of a session has under way, in one message."""


@dataclass
class Lane:
    """Sends one message after the other; what it does not know the fate of, it sends again."""

    session: str
    size: int
    first: int = 0
    pending: int = 0

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.pending)


class Oracle:
    """Sends numbered requests with keys, and remembers the hash of each receipt that it got."""

    def __init__(self, seed: int, log: Path) -> None:
        self.random = random.Random(seed)
        self.sent: list[str] = []
        self.acked: dict[int, bytes] = {}
        self.recovered: set[int] = set()
        self.replayed = 0
        self.busy = 0
        self._lanes = [Lane(session, size) for session in SESSIONS for size in SIZES]
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        os.close(self._log)

    def send_until(self, runtime_dir: Path, wanted: int, kill: Callable[[], None]) -> None:
        """Send until so many more are acknowledged, kill within some milliseconds, read what was answered; blocks."""
        enough = len(self.acked) + wanted
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(f"ipc://{runtime_dir / 'requests.ipc'}")
            for number in range(len(self._lanes)):
                self._send(socket, number)
            while len(self.acked) < enough:
                assert socket.poll(PATIENCE_MS), "no answer"
                self._send(socket, self._take(socket))
            if socket.poll(self.random.randrange(4)):
                self._send(socket, self._take(socket))
            kill()
            while socket.poll(0):
                self._take(socket)

    def settle(self, runtime_dir: Path) -> None:
        """Learn the fate of everything that was sent; blocks."""
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(f"ipc://{runtime_dir / 'requests.ipc'}")
            left = [number for number, lane in enumerate(self._lanes) if lane.pending]
            for number in left:
                self._send(socket, number)
            for _ in left:
                assert socket.poll(PATIENCE_MS), "no answer"
                self._take(socket)

    def judge(self, rows: list[Recorded]) -> None:
        """Everything that was recovered was sent, as it is there, and as it was acknowledged."""
        for row in rows:
            content = row.content
            number = int(content["idempotency_key"][1:])
            assert content["event_id"] == f"evt_{number}"
            assert content["harness_session_id"] == self.sent[number]
            assert self.acked.get(number) in (None, sha256(row.receipt).digest())
            assert number not in self.recovered
            self.recovered.add(number)

    def missing(self) -> list[int]:
        """Return what was acknowledged and never recovered: it must be nothing."""
        return sorted(self.acked.keys() - self.recovered)

    def _send(self, socket: "zmq.Socket[bytes]", number: int) -> None:
        """Send what a lane has pending, or something new; what is new is in the book before."""
        lane = self._lanes[number]
        if not lane.pending:
            lane.first, lane.pending = len(self.sent), lane.size
            self.sent += [lane.session] * lane.size
            self._write(f"sent {lane.first} {lane.size} {lane.session}\n")
        emissions = [{"request": request(one, lane.session)} for one in lane.numbers]
        body = msgpack.packb({"client_id": "oracle", "emissions": emissions})
        socket.send_multipart([b"\x01" + number.to_bytes(8, "big") + b"emit", body])

    def _take(self, socket: "zmq.Socket[bytes]") -> int:
        """Take an answer into the book; return the number of its lane."""
        header, body = socket.recv_multipart()
        number = int.from_bytes(header[1:9], "big")
        lane, answer = self._lanes[number], msgpack.unpackb(body)
        assert header[9:] == b"ok", answer
        results = answer["results"]
        assert len(results) == lane.pending
        if not self._refused(results):
            lines = [self._note(*pair) for pair in zip(lane.numbers, results, strict=True)]
            self._write("".join(lines))
            lane.pending = 0
        return number

    def _refused(self, results: list[dict[str, Any]]) -> bool:
        """Whether a message was refused whole, because too much was under way."""
        refusals = [result["refusal"] for result in results if "refusal" in result]
        assert {refusal["code"] for refusal in refusals} <= {"busy"}
        self.busy += bool(refusals)
        return bool(refusals)

    def _note(self, key: int, result: dict[str, Any]) -> str:
        (receipt,) = result["receipts"]
        assert key not in self.acked
        self.acked[key] = sha256(receipt).digest()
        self.replayed += result.get("replayed", False)
        return f"acked {key} {result['positions'][0]} {self.acked[key].hex()}\n"

    def _write(self, lines: str) -> None:
        os.write(self._log, lines.encode())
        os.fsync(self._log)


def request(number: int, session: str) -> dict[str, Any]:
    """Return a request whose every name follows from its number."""
    return {
        "schema_version": "lifeloop.v0.2",
        "event": "session.started",
        "event_id": f"evt_{number}",
        "adapter_id": "codex",
        "adapter_version": "0.1.0",
        "invocation_id": f"inv_{number}",
        "integration_mode": "native_hook",
        "harness_session_id": session,
        "idempotency_key": f"k{number}",
    }
