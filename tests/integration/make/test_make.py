"""Targets made by a broker: the mechanism of flows knows nothing of Loa, and runs these as well."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from lifebus.make.run import FAILED, make
from lifebus.make.targets import make_flow, read_targets
from support.running import connected, running_bus, short_directory

FILE = """\
all: left right
left: ground
\techo left >> made
right: ground
\techo right >> made
ground:
\techo ground >> made
broken: ground
\techo "no good" >&2; exit 1
after: broken
\techo after >> made
"""


@pytest.fixture
def project() -> Iterator[Path]:
    with short_directory() as directory:
        yield directory


async def _make(project: Path, goal: str | None, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str], list[str]]:
    out = io.StringIO()
    async with running_bus() as daemon, connected(daemon) as bus:
        monkeypatch.setenv("LIFEBUS_RUNTIME_DIR", str(daemon.settings.runtime_dir))
        code = await make(make_flow(read_targets(FILE), goal, str(project), jobs=2), out)
        (run,) = await bus.flows.list()
        told = await bus.inbox.questions(open_only=False)
        assert (run.name, told) == (f"make {goal or 'all'}", [])
    return code, out.getvalue().splitlines(), (project / "made").read_text().split()


async def test_a_goal_is_made_with_what_it_needs_once_each(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said, made = await _make(project, None, monkeypatch)
    assert code == 0
    assert (made[0], sorted(made)) == ("ground", ["ground", "left", "right"])
    assert sorted(said) == ["all: done", "ground: done", "left: done", "right: done"]


async def test_what_fails_is_not_tried_again_and_ends_the_run_without_a_question(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said, made = await _make(project, "after", monkeypatch)
    assert (code, made) == (FAILED, ["ground"])
    assert said == ["ground: done", "broken: failed with code 1", "no good"]
