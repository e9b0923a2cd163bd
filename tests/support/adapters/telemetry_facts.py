"""Telemetry of the adapters under test: captured files, and facts as text that a reviewer can read."""

from pathlib import Path
from typing import Any, cast

import msgspec

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.telemetry import Fact, RecordReader, SourceSpec, Surroundings
from support.paths import CAPTURES, TESTS

HOME = "/home/dev"
NOTHING_SET = Surroundings(home=HOME, environ={})
FOLDERS = {"codex": "sessions/*.jsonl", "claude": "projects/*/*.jsonl"}
"""Where in a captured scenario the harness's own files stand; Codex's folders by day are left out."""

TELEMETRY_FILES = sorted(path for name, files in FOLDERS.items() for path in CAPTURES.glob(f"{name}/*/{files}"))


def harness_of(path: Path) -> str:
    """Return the adapter id of a captured file."""
    return path.relative_to(CAPTURES).parts[0]


def scenario_of(path: Path) -> str:
    """Return the scenario of a captured file."""
    return path.relative_to(CAPTURES).parts[1]


def source_of(adapter_id: str) -> SourceSpec:
    """Return the adapter's files of lines."""
    (source,) = [source for source in ADAPTERS[adapter_id].sources if source.form == "lines"]
    return source


def reader_of(adapter_id: str, path: str, **environ: str) -> RecordReader:
    """Return a fresh reader, as a watcher makes one."""
    return cast("RecordReader", source_of(adapter_id).make_reader(path, Surroundings(home=HOME, environ=environ)))


def records_of(path: Path) -> list[bytes]:
    """Return the lines of a captured file."""
    return path.read_bytes().splitlines()


def facts_of(adapter_id: str, path: str, records: list[bytes], **environ: str) -> list[Fact]:
    """Return all facts in the records, read in order by one reader."""
    reader = reader_of(adapter_id, path, **environ)
    return [fact for record in records for fact in reader.read(record)]


def shown(fact: Fact) -> str:
    """Return a fact as one line: ids by their last eight characters, what is not known or not so left out."""
    plain: dict[str, Any] = msgspec.to_builtins(fact)
    kind = plain.pop("type")
    plain["session"] = plain["session"][-8:]
    for key in ("frame_id", "key"):
        if isinstance(plain.get(key), str) and len(plain[key]) == len("00000000-0000-0000-0000-000000000000"):
            plain[key] = plain[key][-8:]
    return " ".join(
        [kind, *(f"{key}={value}" for key, value in plain.items() if value is not False and value not in (None, {}))]
    )


def replay(path: Path) -> str:
    """Return a captured file's facts as text, each behind the number of its line."""
    reader = reader_of(harness_of(path), str(path))
    lines = enumerate(records_of(path), 1)
    return "".join(f"{number}: {shown(fact)}\n" for number, record in lines for fact in reader.read(record))


def expectation(path: Path) -> Path:
    """Return where the reviewed facts of a captured file's scenario stand."""
    return TESTS / "adapters/telemetry/expected_facts" / harness_of(path) / f"{scenario_of(path)}.txt"


def replayed_scenario(files: list[Path]) -> str:
    """Return the facts of all files of one scenario."""
    return "".join(f"{path.name}\n{replay(path)}" for path in files)
