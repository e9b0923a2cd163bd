"""The tailer with the readers of real harnesses: captured files that grow give the facts they give at rest."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.telemetry import Fact, RecordReader, SourceSpec, Surroundings
from lifebus_supervisor.tailing.events import FileUpdate, TailLimits
from lifebus_supervisor.tailing.tailer import Tailer
from support.paths import CAPTURES

HOMES = {"codex": ".codex/sessions/2026/11/21", "claude": ".claude/projects/-home-dev-project"}
FILES = [
    *(("codex", path) for path in sorted((CAPTURES / "codex").glob("*/sessions/*.jsonl"))),
    *(("claude", path) for path in sorted((CAPTURES / "claude").glob("*/projects/*/*.jsonl"))),
]
PIECE = 30_011


def source_of(adapter_id: str) -> SourceSpec:
    return next(source for source in ADAPTERS[adapter_id].sources if source.form == "lines")


def tailer_of(home: Path, adapter_id: str) -> Tailer:
    return Tailer(
        {adapter_id: [source_of(adapter_id)]},
        Surroundings(home=str(home), environ={}),
        limits=TailLimits(read_s=60),
        uid=os.getuid(),
        now=time.time,
    )


def facts_at_rest(adapter_id: str, path: Path, contents: bytes) -> list[Fact]:
    reader = cast("RecordReader", source_of(adapter_id).make_reader(str(path), Surroundings(home="/", environ={})))
    return [fact for record in contents.splitlines() for fact in reader.read(record)]


def facts(updates: Sequence[FileUpdate]) -> list[Fact]:
    return [fact for update in updates for fact in update.facts]


@pytest.mark.parametrize(
    ("adapter_id", "capture"), FILES, ids=[f"{name}-{path.parts[-3]}-{path.stem[-6:]}" for name, path in FILES]
)
async def test_a_capture_that_grows_piece_by_piece_gives_the_facts_it_gives_at_rest(
    tmp_path: Path, adapter_id: str, capture: Path
) -> None:
    log = tmp_path / HOMES[adapter_id] / capture.name
    log.parent.mkdir(parents=True)
    contents = capture.read_bytes()  # noqa: ASYNC240  a test may block
    tailer = tailer_of(tmp_path, adapter_id)
    assert await tailer.poll() == []
    collected: list[Fact] = []
    for start in range(0, len(contents), PIECE):
        with log.open("ab") as file:
            file.write(contents[start : start + PIECE])
        updates = await tailer.poll()
        assert [update for update in updates if update.history or update.problem or update.skipped] == []
        collected += facts(updates)
    assert collected == facts_at_rest(adapter_id, log, contents)
    assert await tailer.poll() == []
    (tailed,) = tailer.files()
    assert (tailed.size, tailed.records) == (len(contents), len(contents.splitlines()))


def test_the_captures_give_facts() -> None:
    assert sum(bool(facts_at_rest(adapter_id, path, path.read_bytes())) for adapter_id, path in FILES) > len(FILES) / 2
