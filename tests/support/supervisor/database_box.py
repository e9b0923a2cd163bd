"""A harness's database, written by another process with another SQLite, and a reader that asks for what is new."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lifebus_adapters.shared.telemetry import Fact, RowQuery
from lifebus_contract import InvalidRequest
from support.patience import PATIENCE_S
from support.supervisor.tailing_box import usage

_SCRIPT = """
import json, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for line in sys.stdin:
    print(json.dumps(connection.execute(json.loads(line)).fetchall()), flush=True)
connection.close()
"""


class Writer:
    """Another process that has the database open."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, sql: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(sql) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def add(self, *tokens: int) -> None:
        rows = ",".join(f"('s', {each})" for each in tokens)
        self.run(f"INSERT INTO usage(session, tokens) VALUES {rows}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def writing(path: Path, journal: str = "wal") -> Iterator[Writer]:
    """A process that writes; at the end it closes the database as a program that exits well does."""
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        writer = Writer(process)
        try:
            writer.run(f"PRAGMA journal_mode={journal}")
            writer.run("CREATE TABLE IF NOT EXISTS usage(id INTEGER PRIMARY KEY, session TEXT, tokens INTEGER)")
            yield writer
            if process.stdin is not None and process.poll() is None:
                process.stdin.close()
                process.wait(timeout=PATIENCE_S)
        finally:
            process.kill()


class RowReader:
    """Asks for the rows after the last one that it has seen."""

    def __init__(
        self, sql: str = "SELECT id, session, tokens FROM usage WHERE id > ? ORDER BY id", limit: int = 1_000
    ) -> None:
        self.seen = 0
        self._sql, self._limit = sql, limit

    def queries(self) -> Sequence[RowQuery]:
        return [RowQuery(sql=self._sql, values=(self.seen,), limit=self._limit)]

    def read(self, query: RowQuery, rows: Sequence[tuple[Any, ...]]) -> Sequence[Fact]:
        facts: list[Fact] = []
        for row, session, tokens in rows:
            if tokens < 0:
                raise InvalidRequest("negative", code="out_of_range", field="usage.tokens")
            facts.append(usage(tokens, session))
            self.seen = row
        return facts


def snapshot_of(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything that a reader might change in a folder."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(folder.iterdir())
    }
