"""A flow whose broker is killed with SIGKILL at its writes: no step is skipped, none runs again once it is done.

The oracle is a file that the steps themselves write: it knows nothing of records, states or receipts.
"""

from pathlib import Path

import pytest

from support.crash import dying_life
from support.effort import effort
from support.running import short_directory

STEPS = "abcde"
BOUNDARIES = [f"{when}:{number}" for number in range(1, effort(4, 14)) for when in ("before", "after")]
NEEDS = {"b": "a", "c": "b", "d": "c", "e": "c"}
USED_UP = 30
"""More lives than any flow of five needs."""


def live(home: Path, kill: str) -> tuple[int, list[str]]:
    """Live one life of the broker; return its exit code and what it said of the run."""
    code, said = dying_life.live(home, "support.crash.flow_broker:main", kill)
    return code, said.split()


def check_world(lines: list[str], lives: int) -> None:
    """Hold what the steps wrote to what a flow promises."""
    ended: list[str] = []
    for line in lines:
        what, name = line.split()
        if what == "begin":
            assert NEEDS.get(name) in {None, *ended}, f"{name} began before what it needs had ended: {lines}"
        else:
            ended.append(name)
    assert set(ended) == set(STEPS)
    # An end that was not on record when the broker was killed is followed by one more try, and by no other.
    assert len(ended) - len(set(ended)) <= 2 * (lives - 1), lines


@pytest.mark.parametrize("kill", BOUNDARIES)
def test_a_broker_killed_at_a_write_goes_on_with_its_flow(kill: str) -> None:
    with short_directory() as home:
        (home / "project").mkdir()
        code, said = live(home, kill)
        killed = code == -9
        lives = 1 + killed
        if killed:
            code, said = live(home, "")
        assert code == 0, (home / "log").read_text()
        assert said[0] == "completed"
        assert said[2:] == ["q_run_of_five_c_1"]
        check_world((home / "project" / "world").read_text().splitlines(), lives)


def test_a_broker_killed_at_the_third_write_of_every_life_comes_to_the_end() -> None:
    with short_directory() as home:
        (home / "project").mkdir()
        lives, code = 0, -9
        said: list[str] = []
        while code == -9:
            lives += 1
            assert lives < USED_UP
            code, said = live(home, "after:3")
        assert code == 0, (home / "log").read_text()
        assert said[0] == "completed"
        # The last kill may have come behind the end of the run.
        assert lives - 2 <= int(said[1]) <= lives - 1
        assert said[2:] == ["q_run_of_five_c_1"]
        check_world((home / "project" / "world").read_text().splitlines(), lives)
