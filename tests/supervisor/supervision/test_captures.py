"""Every recorded session goes through adapter, bus and supervision to its reviewed list of receipts, one line each."""

from pathlib import Path

import pytest

from support.adapters.calls import CAPTURE_FILES
from support.supervisor.replaying import play, receipt_lines
from support.supervisor.supervised import supervised

EXPECTED = Path(__file__).parent / "expected"


def expectation(capture: Path) -> Path:
    return EXPECTED / capture.parent.parent.name / f"{capture.parent.name}.txt"


@pytest.mark.parametrize("capture", CAPTURE_FILES, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
async def test_a_recorded_session_gives_the_reviewed_receipts(capture: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with supervised(tmp_path) as rig:
        receipts = await play(rig, capture, home)
    assert receipt_lines(receipts) == expectation(capture).read_text()


def test_every_expectation_belongs_to_a_capture() -> None:
    assert sorted(EXPECTED.glob("*/*.txt")) == sorted(expectation(capture) for capture in CAPTURE_FILES)
