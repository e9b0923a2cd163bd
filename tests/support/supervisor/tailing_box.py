"""A harness that does not exist: its files in a directory of the test, its readers plain, its clock set by hand."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from lifebus_adapters.shared.telemetry import (
    Activity,
    DatabaseReader,
    Fact,
    RecordReader,
    SourceSpec,
    Surroundings,
    Usage,
)
from lifebus_contract import InvalidRequest
from lifebus_supervisor.tailing.events import FileUpdate, TailLimits
from lifebus_supervisor.tailing.tailer import Tailer


class NumberReader:
    """Reads ``{"n": 5}`` as a usage of 5 tokens; anything else that is JSON says nothing."""

    def __init__(self, session: str = "s") -> None:
        self.session = session

    def read(self, record: bytes) -> Sequence[Fact]:
        try:
            data: Any = json.loads(record)
        except ValueError as fault:
            raise InvalidRequest("no JSON", code="invalid_json", field="$") from fault
        if "defect" in data:
            raise ZeroDivisionError
        return [usage(data["n"], self.session)] if "n" in data else [Activity(session=self.session)]


def usage(tokens: int, session: str = "s") -> Usage:
    return Usage(session=session, used_tokens=tokens, used_source="test")


def line(tokens: int) -> str:
    return json.dumps({"n": tokens}) + "\n"


def session_of(path: str) -> str | None:
    name = Path(path).name
    return name.removesuffix(".jsonl") if name.endswith(".jsonl") else None


def source(
    root: Path,
    *,
    form: Literal["lines", "objects", "database"] = "lines",
    pattern: str = "*.jsonl",
    source_id: str = "log",
    make_reader: Callable[[str, Surroundings], RecordReader | DatabaseReader] | None = None,
) -> SourceSpec:
    return SourceSpec(
        source_id=source_id,
        form=form,
        roots=lambda surroundings: (str(root),),
        pattern=pattern,
        session_of=session_of,
        make_reader=make_reader or (lambda path, surroundings: NumberReader(session_of(path) or "s")),
        is_ours=lambda path: path.endswith(".jsonl"),
    )


class Box:
    """A tailer on a directory with time to read, and a clock that runs `ahead` of the real one as the test says."""

    def __init__(
        self, root: Path, *sources: SourceSpec, discover: bool = True, uid: int | None = None, **limits: Any
    ) -> None:
        self.root = root
        self.ahead = 0.0
        self.tailer = Tailer(
            {"codex": sources or (source(root),)},
            Surroundings(home=str(root), environ={}),
            limits=TailLimits(**{"read_s": 60.0, **limits}),
            uid=os.getuid() if uid is None else uid,
            now=lambda: time.time() + self.ahead,
            discover=discover,
        )

    async def poll(self) -> list[FileUpdate]:
        return list(await self.tailer.poll())

    async def tokens(self) -> list[int]:
        return tokens_in(await self.poll())

    def follow(self, name: str, session: str = "s") -> bool:
        return self.tailer.follow("codex", session, str(self.root / name))


def tokens_in(updates: Sequence[FileUpdate]) -> list[int]:
    return [fact.used_tokens for update in updates for fact in update.facts if isinstance(fact, Usage)]


def problems(updates: Sequence[FileUpdate]) -> Mapping[str, str]:
    return {Path(update.path).name: update.problem for update in updates if update.problem}


def write(path: Path, text: str) -> None:
    """Append, as harnesses do."""
    with path.open("a") as file:
        file.write(text)
