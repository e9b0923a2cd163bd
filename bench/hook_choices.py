"""What can take a hook's events: a broker, a small HTTP server, a file; each with a follower and a way to be away."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol

import apsw

from bench.child import child, expect
from bench.event_followers import session_of
from bench.hook_calls import HARNESS, HOOK, recorded_sessions
from bench.lifebus_client import Broker, broker
from bench.peers.process import free_port
from bench.start import installed_hook

_POST_HOOK: Final = str(Path(__file__).with_name("post_hook.py"))
_PATH: Final = {"PATH": os.defpath}
_PATIENCE_S: Final = 10.0


class Place(Protocol):
    """Where events go; `database` is the SQLite file in which they become durable, if there is one."""

    database: Path | None
    follower: "subprocess.Popen[str]"

    def kill(self) -> None:
        """Kill the server, if there is one."""
        ...

    def sessions(self) -> set[str]:
        """Return the sessions whose events it has; a server that was killed is started again, and given time."""
        ...


class BrokerPlace:
    """A broker; its spool is read when it starts again."""

    def __init__(self, stack: ExitStack) -> None:
        self._broker: Broker = stack.enter_context(broker())
        self.environment = {**_PATH, **self._broker.environment}
        self.database: Path | None = self._broker.state_dir / "ledger.db"
        self.follower = stack.enter_context(child("bench.event_followers", "lifebus", self._broker.runtime_dir))

    def kill(self) -> None:
        """Kill the broker."""
        self._broker.kill()

    def sessions(self) -> set[str]:
        """Start it, and return what it has once it has read its spool."""
        self._broker.start()
        deadline = time.monotonic() + _PATIENCE_S
        while any((self._broker.state_dir / "spool").iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return asyncio.run(recorded_sessions(self._broker.runtime_dir))


class ServerPlace:
    """The small HTTP server."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self.port = free_port()
        self._file = folder / "events.db"
        self.database: Path | None = self._file
        self._server = self._start()
        self.follower = stack.enter_context(child("bench.event_followers", "http", self.port))

    def kill(self) -> None:
        """Kill the server."""
        self._server.kill()
        self._server.wait()

    def sessions(self) -> set[str]:
        """Start it, and return what its table has."""
        self._server = self._start()
        with contextlib.closing(apsw.Connection(str(self._file), apsw.SQLITE_OPEN_READONLY)) as connection:
            return {session_of(bytes(body)) for (body,) in connection.execute("SELECT payload FROM events")}

    def _start(self) -> "subprocess.Popen[str]":
        return self._stack.enter_context(child("bench.event_server", self.port, self._file))


class FilePlace:
    """A file, which has no server that could be away."""

    database: Path | None = None

    def __init__(self, stack: ExitStack, folder: Path, name: str) -> None:
        self.file = folder / name
        self.file.touch()
        self.follower = stack.enter_context(child("bench.event_followers", "file", self.file))

    def kill(self) -> None:
        """There is nothing to kill."""

    def sessions(self) -> set[str]:
        """Return what the file has."""
        return set(map(session_of, self.file.read_bytes().splitlines()))


class Choice:
    """A hook's command and where its events go; `synced` where the command's end means that they are durable."""

    def __init__(
        self, command: Sequence[str], place: Place, environment: dict[str, str] = _PATH, *, synced: bool = False
    ) -> None:
        self.command, self.place, self.environment, self.synced = command, place, environment, synced


OURS, POSTED, CURL, APPENDED, SYNCED = (
    "our hook",
    "Python hook, small HTTP server",
    "curl, the same server",
    "sh, append to a file",
    "sh, append and sync",
)


@contextmanager
def choices(folder: Path) -> Iterator[dict[str, Choice]]:
    """Provide every choice whose program is installed, each running."""
    with ExitStack() as stack:
        ours = BrokerPlace(stack)
        # The launcher, as an installation has it: it runs the hook from bytecode.
        found = {OURS: Choice((installed_hook(folder), HARNESS, HOOK), ours, ours.environment)}
        server = ServerPlace(stack, folder)
        found[POSTED] = Choice((sys.executable, "-I", "-S", _POST_HOOK, str(server.port)), server)
        if curl := shutil.which("curl"):
            address = f"http://127.0.0.1:{server.port}/"
            found[CURL] = Choice((curl, "-s", "--max-time", "1", "--data-binary", "@-", address), server)
        plain, synced = FilePlace(stack, folder, "events"), FilePlace(stack, folder, "synced")
        found[APPENDED] = Choice(("/bin/sh", "-c", 'cat >> "$0"', str(plain.file)), plain)
        append = 'cat >> "$0" && sync "$0"'
        found[SYNCED] = Choice(("/bin/sh", "-c", append, str(synced.file)), synced, synced=True)
        yield found


class Commits:
    """Notices commits of a database from another connection, which sees them once they are synced."""

    def __init__(self, database: Path) -> None:
        self._connection = apsw.Connection(str(database), apsw.SQLITE_OPEN_READONLY)
        self._last = self._version()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def changed(self) -> bool:
        """Whether there was a commit since the last time."""
        last, self._last = self._last, self._version()
        return self._last != last

    def _version(self) -> int:
        return int(next(self._connection.execute("PRAGMA data_version"))[0])


def seen(place: Place, session: str) -> int:
    """Wait until the follower has an event of a session; return the nanosecond in which it had it."""
    while True:
        found, nanoseconds = expect(place.follower, "got")
        if found == session:
            return int(nanoseconds)
