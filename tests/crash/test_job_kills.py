"""Jobs whose broker is killed with SIGKILL at its writes: none is lost, and none comes to its end twice.

The oracle is a file that the programs themselves write: it knows nothing of records, states or events.
"""

from collections import Counter
from pathlib import Path

import pytest

from support.crash import dying_life
from support.crash.job_broker import JOBS
from support.effort import effort
from support.patience import TEST_S
from support.running import short_directory

BOUNDARIES = [f"{when}:{number}" for number in (1, 5, 7, *range(9, effort(9, 17))) for when in ("before", "after")]
USED_UP = 40
"""More lives than four jobs need."""


def live(home: Path, kill: str) -> tuple[int, str]:
    """Live one life of the broker; return its exit code and what it said of the jobs."""
    return dying_life.live(home, "support.crash.job_broker:main", kill, TEST_S)


def prepared(home: Path) -> Path:
    root = home / "project"
    root.mkdir()
    (root / "acknowledged").touch()
    (root / "world").touch()
    return root


def check_world(root: Path, said: str) -> None:
    """Hold what the programs wrote to what the queue promises."""
    assert dict(one.split("=") for one in said.split()) == dict.fromkeys(JOBS, "completed")
    lines = (root / "world").read_text().splitlines()
    assert Counter(line for line in lines if line.startswith("end")) == {f"end {name}": 1 for name in JOBS}, lines
    assert (root / "acknowledged").read_text().split() == [*JOBS]


@pytest.mark.parametrize("kill", BOUNDARIES)
def test_a_broker_killed_at_a_write_loses_no_job_and_repeats_none(kill: str) -> None:
    with short_directory() as home:
        root = prepared(home)
        code, said = live(home, kill)
        assert code == -9, "it was to be killed"
        code, said = live(home, "")
        assert code == 0, (home / "log").read_text()
        check_world(root, said)


def test_a_broker_killed_in_every_life_comes_to_the_end() -> None:
    with short_directory() as home:
        root = prepared(home)
        code, said = -9, ""
        for lives in range(USED_UP):
            code, said = live(home, f"after:{2 + lives % 3}")
            if code != -9:
                break
        assert code == 0, (home / "log").read_text()
        check_world(root, said)
