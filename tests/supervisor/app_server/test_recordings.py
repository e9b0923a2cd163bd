"""Every recording of the real app-server becomes its reviewed list of receipts, one line each."""

from pathlib import Path

import pytest

from support.adapters.app_server_recordings import RECORDINGS
from support.supervisor.observed import play
from support.supervisor.replaying import receipt_lines
from support.supervisor.supervised import supervised

EXPECTED = Path(__file__).parent / "expected"


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
async def test_a_recording_gives_the_reviewed_receipts(recording: Path, tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        receipts = await play(rig, recording)
    assert receipt_lines(receipts) == (EXPECTED / f"{recording.stem}.txt").read_text()


def test_every_expectation_belongs_to_a_recording() -> None:
    assert sorted(path.stem for path in EXPECTED.glob("*.txt")) == [path.stem for path in RECORDINGS]
