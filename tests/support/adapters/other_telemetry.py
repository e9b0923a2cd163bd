"""The telemetry of Gemini CLI, OpenCode, Hermes and OpenClaw under test: captured files, databases made of dumps."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.telemetry import DatabaseReader, Fact, RecordReader, RowQuery, SourceSpec, Surroundings
from support.adapters.telemetry_facts import HOME, expectation, harness_of, shown
from support.paths import CAPTURES

FILES = sorted([*CAPTURES.glob("gemini/*/chats/*.jsonl"), *CAPTURES.glob("gemini/*/*.log")])
DUMPS = sorted(CAPTURES.glob("*/*/*_db_dump.json"))

SCHEMAS = {
    "opencode": "CREATE TABLE event (id TEXT PRIMARY KEY, aggregate_id TEXT, seq INTEGER, type TEXT, data TEXT);",
    "hermes": """
        CREATE TABLE sessions (id TEXT PRIMARY KEY, ended_at REAL, end_reason TEXT);
        CREATE TABLE messages (
          id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT, finish_reason TEXT,
          active INTEGER DEFAULT 1, compacted INTEGER DEFAULT 0
        );
    """,
    "openclaw": """
        CREATE TABLE session_nodes (
          session_key TEXT PRIMARY KEY, current_session_id TEXT, entry_json TEXT, updated_at INTEGER
        );
        CREATE TABLE transcript_events (
          session_id TEXT, seq INTEGER, event_json TEXT, created_at INTEGER, PRIMARY KEY (session_id, seq)
        );
        CREATE TABLE trajectory_runtime_events (
          session_id TEXT, seq INTEGER, run_id TEXT, event_json TEXT, created_at INTEGER, PRIMARY KEY (session_id, seq)
        );
    """,
}  # fmt: skip
"""What the readers look at, by harness; the real tables have more columns."""


def source(adapter_id: str, source_id: str) -> SourceSpec:
    """Return one of an adapter's kinds of files."""
    (found,) = [one for one in ADAPTERS[adapter_id].sources if one.source_id == source_id]
    return found


def record_reader(source_id: str, **environ: str) -> RecordReader:
    """Return a fresh reader of one of Gemini CLI's files."""
    reader = source("gemini", source_id).make_reader("/x", Surroundings(home=HOME, environ=environ))
    assert not hasattr(reader, "queries")
    return reader


def records(path: Path) -> list[bytes]:
    """Return the records of a captured file: lines, or JSON objects one after the other."""
    if path.suffix == ".jsonl":
        return path.read_bytes().splitlines()
    text, found, at = path.read_text(), list[bytes](), 0
    while (at := _next(text, at)) < len(text):
        _, end = json.JSONDecoder().raw_decode(text, at)
        found.append(text[at:end].encode())
        at = end
    return found


def _next(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


class Store:
    """A database with a reader on it that asks through plain SQLite."""

    def __init__(self, adapter_id: str) -> None:
        self.adapter_id = adapter_id
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.executescript(SCHEMAS[adapter_id])
        self.reader = database_reader(adapter_id)

    def insert(self, table: str, **row: Any) -> None:
        """Store a row; of a dump's row only the columns that the table has."""
        columns = [name for _, name, *_ in self.connection.execute(f"PRAGMA table_info({table})")]
        kept = {name: value for name, value in row.items() if name in columns}
        marks = ", ".join("?" * len(kept))
        self.connection.execute(f"INSERT INTO {table} ({', '.join(kept)}) VALUES ({marks})", tuple(kept.values()))

    def answers(self) -> list[tuple[RowQuery, list[tuple[Any, ...]]]]:
        """Return what the reader's queries are answered with now."""
        asked = self.reader.queries()
        return [(one, self.connection.execute(one.sql, one.values).fetchmany(one.limit)) for one in asked]

    def poll(self) -> list[Fact]:
        """Return what the reader makes of the answers."""
        return [fact for query, rows in self.answers() for fact in self.reader.read(query, rows)]


def database_reader(adapter_id: str) -> DatabaseReader:
    """Return a fresh reader of a harness's database."""
    reader = source(adapter_id, "database").make_reader("/x", Surroundings(home=HOME, environ={}))
    assert hasattr(reader, "queries")
    return cast("DatabaseReader", reader)


def stored(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a dump, each with its table, in the order in which they came to be."""
    dump = json.loads(path.read_text())
    if harness_of(path) == "opencode":
        said = _events_of(path.parent / "plugin_hooks_and_events.jsonl")
        yield from (("event", row | {"data": said.get(row["id"], row["data"])}) for row in dump["event"])
        return
    for table in ("session_nodes", "messages", "transcript_events", "trajectory_runtime_events", "sessions"):
        yield from ((table, row) for row in dump.get(table, []))


def _events_of(path: Path) -> dict[str, str]:
    """Return what a plugin saw of the events that the database holds, by their id: the dump shortened them."""
    lines: Sequence[str] = path.read_text().splitlines() if path.exists() else []
    seen = [json.loads(line).get("input") or {} for line in lines]
    return {one["event"]["id"]: json.dumps(one["event"]["properties"]) for one in seen if "id" in one.get("event", {})}


def replay(path: Path) -> str:
    """Return the facts of a captured file or dump as text, each behind the number of its record or row."""
    return f"{path.name}\n" + "".join(f"{number}: {shown(fact)}\n" for number, fact in numbered_facts(path))


def numbered_facts(path: Path) -> Iterator[tuple[int, Fact]]:
    """Yield a captured file's facts; rows come one at a time, each followed by a poll."""
    if path in FILES:
        reader = record_reader("chats" if path.suffix == ".jsonl" else "telemetry")
        for number, record in enumerate(records(path), 1):
            yield from ((number, fact) for fact in reader.read(record))
        return
    store = Store(harness_of(path))
    with closing(store.connection):
        store.poll()
        for number, (table, row) in enumerate(stored(path), 1):
            store.insert(table, **row)
            yield from ((number, fact) for fact in store.poll())


def replay_scenario(files: Sequence[Path]) -> str:
    """Return the facts of all files of a scenario."""
    return "".join(replay(path) for path in files)


SCENARIOS: dict[Path, list[Path]] = {}
"""The captured files by the path of their reviewed facts."""

for _path in (*FILES, *DUMPS):
    SCENARIOS.setdefault(expectation(_path), []).append(_path)
