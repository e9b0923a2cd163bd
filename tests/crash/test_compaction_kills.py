"""Brokers that are killed while they write a job's or a transcript's records down anew: what was promised is there.

The oracle is a file in which the broker writes each promise before it goes on, and a list beside it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from support.crash import dying_life
from support.crash.compacting_broker import ENTRIES, MANY, SHRINKS_AT, SUGGESTS_AT, promised
from support.effort import TORTURE, effort
from support.patience import TEST_S
from support.running import short_directory

ENTRY = "support.crash.compacting_broker:main"


def boundaries(writes: int) -> list[str]:
    """Before the first write and after each: before the others the disk is as after the one before."""
    every = [f"{when}:{number}" for number in range(1, writes + 1) for when in ("before", "after")]
    return every if TORTURE else ["before:1", *(one for one in every if one.startswith("after"))]


def live(home: Path, kill: str) -> tuple[int, str]:
    return dying_life.live(home, ENTRY, kill, TEST_S)


def lives(home: Path, kind: str, kill: str) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Live a life that is killed and one that is not; return what was promised before, and what was found then."""
    root = home / "project"
    root.mkdir()
    (root / "kind").write_text(kind)
    (root / "promised").touch()
    code, _ = live(home, kill)
    assert code == -9, f"it was to be killed; {(home / 'log').read_text()[-2_000:]}"
    last = promised(root)
    code, said = live(home, "")
    assert code == 0, (home / "log").read_text()[-2_000:]
    before, after = json.loads(said)
    assert (before["faults"], after["faults"]) == ([], [])
    return last, before, after


@pytest.mark.parametrize("kill", boundaries(effort(2, 8)))
def test_a_broker_killed_while_it_writes_down_a_job_anew_keeps_the_job_as_promised(kill: str) -> None:
    with short_directory() as home:
        last, before, after = lives(home, "jobs", kill)
        assert before["jobs"] in ([last], [last + 1])
        assert after["jobs"] == [MANY]


def transcript(last: int) -> tuple[dict[str, int], list[str], int]:
    """Each entry and its newest number, their order, and how many were dropped, after so many changes."""
    numbers: dict[str, int] = {}
    dropped = 0
    for number in range(1, last + 1):
        numbers[f"m{number % ENTRIES}"] = number
        if number == SHRINKS_AT:
            del numbers[next(iter(numbers))]
            dropped = 1
    return numbers, [*numbers], dropped


@pytest.mark.parametrize("kill", boundaries(effort(5, 12)))
def test_a_broker_killed_while_it_writes_down_a_transcript_anew_keeps_the_transcript_as_promised(kill: str) -> None:
    with short_directory() as home:
        last, before, after = lives(home, "transcript", kill)
        found = before["entries"], before["order"], before["dropped"]
        # The change itself is durable before the records are written down anew.
        assert found in (transcript(last), transcript(last + 1), unshrunk(last + 1))
        assert before["suggestions"] == ["text"] or last < SUGGESTS_AT
        assert (after["entries"], after["order"], after["dropped"]) == transcript(MANY)
        assert after["suggestions"] == ["text"]


def unshrunk(last: int) -> tuple[dict[str, int], list[str], int]:
    """The same where the broker was killed before the oldest one was dropped, but after the change before it."""
    if last != SHRINKS_AT:
        return transcript(last)
    numbers, order, _ = transcript(last - 1)
    numbers[f"m{last % ENTRIES}"] = last
    return numbers, order, 0
