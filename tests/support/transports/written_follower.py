"""A web client of everything as a process of its own: it writes each frame down before it takes the next one.

It is made to be killed: the next one goes on behind the last frame that is written, as a client with a database would.
"""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.fork_server import Forked, fork_server
from support.paths import TESTS
from support.patience import PATIENCE_S
from support.transports.cut_clients import CutClient, CutEvents, CutSocket
from support.transports.gateway import Address


class WrittenFollower:
    """The client as its test sees it: a process that can be killed, and the file that it writes."""

    def __init__(self, runtime_dir: Path, file: Path, kind: str) -> None:
        self.file = file
        self.kills = 0
        self._words = [str(Path(__file__)), str(runtime_dir), str(file), kind]
        self._process: Forked | None = None
        self._file_of_log = file.with_suffix(".log")

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is None:
            environment = {"PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
            with self._file_of_log.open("ab") as log:
                self._process = fork_server().start(
                    "support.fork_server:script",
                    self._words,
                    environment=environment,
                    stdout=log.fileno(),
                    stderr=log.fileno(),
                )

    def kill(self) -> None:
        """End it as the kernel does."""
        if self._process is not None:
            self._process.kill()
            code = self._process.wait(PATIENCE_S)
            self._process = None
            self.kills += 1
            # It ends by nothing else: what it found wrong stands in its log.
            assert code == -9, self._file_of_log.read_text()

    def frames(self) -> list[dict[str, Any]]:
        """Every frame that is written as a whole, in its order."""
        data = self.file.read_bytes() if self.file.exists() else b""
        return [json.loads(line) for line in data.split(b"\n")[:-1]]


def main(runtime_dir: Path, file: Path, kind: str) -> None:
    """Follow for ever, behind what is written."""
    pause = threading.Event()
    with file.open("a+b", buffering=0) as written:
        last = _last_of(written)
        while True:
            # No broker is there, or not yet, or the one that is there was killed meanwhile.
            with contextlib.suppress(OSError, ValueError):
                address = Address.of(runtime_dir)
                with contextlib.closing(_open(address, kind, last)) as client:
                    while not client.ended:
                        for frame in client.read():
                            written.write(json.dumps(frame).encode() + b"\n")
                            last = frame["id"]
            pause.wait(0.005)


def _last_of(written: Any) -> str | None:
    """The id of the last frame that is written as a whole; what a kill has left of another one is cut off."""
    written.seek(0)
    data: bytes = written.read()
    whole = data[: data.rfind(b"\n") + 1]
    written.truncate(len(whole))
    lines = whole.splitlines()
    return str(json.loads(lines[-1])["id"]) if lines else None


def _open(address: Address, kind: str, last: str | None) -> CutClient:
    headers: Mapping[str, str] = address.bearer | ({} if last is None else {"Last-Event-ID": last})
    if kind == "events":
        return CutEvents(address.port, "/api/events?from=oldest", headers)
    return CutSocket(address.port, f"/api/stream?from=oldest&batch={'true' if kind == 'batch' else 'false'}", headers)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
