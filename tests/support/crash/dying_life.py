"""One life of a broker that kills itself at a boundary: lived from outside, and ended from inside.

The variables ``LIFE_ROOT`` and ``LIFE_KILL`` tell the program where it works, and when it is killed: ``before:N`` is
before the N-th append of records of some streams is handed to the ledger, ``after:N`` once it is durable and before
anything is done about it.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lifebus_broker.ledger.sqlite.journal import SqliteJournal
from lifebus_broker.ports import NewRecord, Record, Refusal
from support.fork_server import fork_server
from support.patience import PATIENCE_S


def live(home: Path, entry: str, kill: str, patience: float = PATIENCE_S) -> tuple[int, str]:
    """Live one life of the program `entry` (``module:function``); return its exit code and its last line."""
    environment = {
        "PATH": os.defpath,
        "HOME": str(home),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "LIFEBUS_RUNTIME_DIR": str(home / "run"),
        "LIFEBUS_STATE_DIR": str(home / "state"),
        "LIFEBUS_TELEMETRY_ENABLED": "false",
        "LIFEBUS_TICKS_ENABLED": "false",
        "LIFE_ROOT": str(home / "project"),
        "LIFE_KILL": kill,
    }
    with (home / "log").open("ab") as log:
        broker = fork_server().start(entry, [], environment=environment, stdout=subprocess.PIPE, stderr=log.fileno())
    try:
        said, _ = broker.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"a life has not ended after {patience:g} s") from None
    return broker.wait(PATIENCE_S), said.decode().strip().rpartition("\n")[2]


def life_root() -> Path:
    """Return where this life works."""
    return Path(os.environ["LIFE_ROOT"])


def die_when_asked(streams: str) -> None:
    """Have this process killed at the append that ``LIFE_KILL`` names, of those that hold records of such streams."""
    when, _, number = os.environ.get("LIFE_KILL", "").partition(":")
    if not number:
        return
    append, left = SqliteJournal.append, [int(number)]

    def dying(
        self: SqliteJournal, records: Sequence[NewRecord], done: Callable[[list[Record] | Refusal], None]
    ) -> Refusal | None:
        if any(one.stream.startswith(streams) for one in records):
            left[0] -= 1
            if not left[0] and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            if not left[0]:
                done = _die
        return append(self, records, done)

    SqliteJournal.append = dying  # type: ignore[method-assign]


def die_at_writes(is_counted: Callable[[Sequence[NewRecord]], bool], *, drops: Callable[[], bool]) -> None:
    """Have this process killed at the write that ``LIFE_KILL`` names, of the appends that count and the drops."""
    when, _, number = os.environ.get("LIFE_KILL", "").partition(":")
    if not number:
        return
    append, drop, drop_all, left = SqliteJournal.append, SqliteJournal.drop, SqliteJournal.drop_all, [int(number)]

    def due(counts: bool) -> bool:
        left[0] -= counts
        is_due = counts and not left[0]
        if is_due and when == "before":
            _die(None)
        return is_due

    def dying(
        self: SqliteJournal, records: Sequence[NewRecord], done: Callable[[list[Record] | Refusal], None]
    ) -> Refusal | None:
        return append(self, records, _die if due(is_counted(records)) else done)

    async def dropping(self: SqliteJournal, stream: str, through: int) -> int:
        is_due, floor = due(drops()), await drop(self, stream, through)
        if is_due:
            _die(None)
        return floor

    async def dropping_all(
        self: SqliteJournal, throughs: Mapping[str, int], known: tuple[str, int] | None = None
    ) -> None:
        is_due = due(drops())
        await drop_all(self, throughs, known)
        if is_due:
            _die(None)

    SqliteJournal.append = dying  # type: ignore[method-assign]
    SqliteJournal.drop, SqliteJournal.drop_all = dropping, dropping_all  # type: ignore[method-assign]


def _die(_: object) -> None:
    """End as a process does that is killed."""
    os.kill(os.getpid(), signal.SIGKILL)
