"""A scenario from its first hook to the judgement, with a program that behaves as a harness does."""

import shutil
from pathlib import Path

from lifebus.live.expected import Expectation, ExpectedLines
from lifebus.live.programs import PROGRAMS
from lifebus.live.programs.base import Installation
from lifebus.live.runner import Cell, Patience, run_scenario
from lifebus.live.scenarios import SCENARIOS

LINES = (
    "session.starting startup",
    "session.started startup",
    "frame.opening",
    "frame.opened",
    "frame.ending",
    "frame.ended completed",
    "session.ending",
)
EXPECTED = Expectation(
    (ExpectedLines(LINES), ExpectedLines(("session.ended",), "*"), ExpectedLines(("session.ended completed",), "*"))
)
PROGRAM = Path(__file__).parent / "fake_claude.py"
NAME = "plain_turn"


async def run_plain_turn(program: Path, *, expected_s: float, keep: Path | None = None) -> Cell:
    python = str(Path(shutil.which("python3") or "/usr/bin/python3").parent)
    return await run_scenario(
        PROGRAMS["claude"],
        Installation(program, (python,)),
        SCENARIOS[NAME],
        EXPECTED,
        keep=keep,
        patience=Patience(expected_s, 0.2),
    )


async def test_a_harness_that_reports_its_turn_is_as_expected(tmp_path: Path) -> None:
    cell = await run_plain_turn(PROGRAM, expected_s=20, keep=tmp_path)
    assert cell.expected.fits(cell.recorded), cell
    assert (tmp_path / "claude.plain_turn/broker.log").exists()


async def test_a_harness_that_leaves_a_hook_out_is_not(tmp_path: Path) -> None:
    program = Path(shutil.copy(PROGRAM, tmp_path / "forgetful.py"))
    cell = await run_plain_turn(program, expected_s=0.5)
    assert not cell.holds
    assert "frame.ending" not in cell.recorded
