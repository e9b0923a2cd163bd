"""The server that a user would write for hooks: HTTP, one SQLite table, and a long poll for who wants to follow.

`python -m bench.event_server PORT DATABASE` prints `ready`.  A POST is answered once its row is synced; a GET of
`/N` waits for rows behind N and is answered with them, one JSON document a line.
"""

import sqlite3
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_WAIT_S = 10.0


class Events:
    """The table; whoever waits for rows is woken by the next one."""

    def __init__(self, database: Path) -> None:
        self._changed = threading.Condition()
        self._connection = sqlite3.connect(database, check_same_thread=False, isolation_level=None)
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",  # as the broker: no answer before the disk has it
            "CREATE TABLE IF NOT EXISTS events (number INTEGER PRIMARY KEY, payload BLOB NOT NULL)",
        ):
            self._connection.execute(statement)

    def append(self, payload: bytes) -> None:
        """Record a payload durably."""
        with self._changed:
            self._connection.execute("INSERT INTO events (payload) VALUES (?)", (payload,))
            self._changed.notify_all()

    def behind(self, number: int) -> list[bytes]:
        """Return the payloads behind a number; wait for one where there is none, ten seconds at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._read(number), _WAIT_S)
            return self._read(number)

    def _read(self, number: int) -> list[bytes]:
        rows = self._connection.execute("SELECT payload FROM events WHERE number > ? ORDER BY number", (number,))
        return [bytes(payload) for (payload,) in rows]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave together: two small packets would wait for each other's acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True
    events: Events

    def do_POST(self) -> None:
        """Record the body."""
        self.events.append(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(b"")

    def do_GET(self) -> None:
        """Answer with what comes behind a number."""
        self._answer(b"".join(payload.rstrip() + b"\n" for payload in self.events.behind(int(self.path[1:]))))

    def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Print nothing."""

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


def main() -> None:
    """Serve until killed."""
    _Handler.events = Events(Path(sys.argv[2]))
    with _Server(("127.0.0.1", int(sys.argv[1])), _Handler) as server:
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
