"""Kill -9 while actions are done: under one key nothing is done twice, and what was told stays told.

The oracle is two files outside: what reached the app-server and the queue, and what whoever asked was told.
"""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import anyio
import anyio.to_thread

from support.broker_process import until
from support.effort import effort
from support.paths import SUPPORT

PROGRAM = SUPPORT / "actions/dying_actions.py"
LIVES = effort(3, 300)
KEYS = 8


async def test_nothing_is_done_twice_under_one_key_and_what_was_told_stays_told(tmp_path: Path) -> None:
    chance = random.Random(15)
    lives = killed = 0
    # As many as it takes until one was killed in the middle: on a busy machine it may be done before we look.
    while lives < LIVES or not killed:
        killed += await one_life(tmp_path, lives * KEYS // 2, chance)
        lives += 1
    # Once without a kill, so that the last keys have an outcome as well.
    count = lives * KEYS
    process = await anyio.run_process([sys.executable, str(PROGRAM), str(tmp_path), "0", str(count)])
    assert process.returncode == 0
    effects = Counter(lines_of(tmp_path / "effects"))
    assert {line: times for line, times in effects.items() if times > 1} == {}
    told = told_of(tmp_path / "told")
    for (kind, name), outcomes in told.items():
        final = outcomes[-1]
        first = next(place for place, one in enumerate(outcomes) if one == final)
        # Nothing that was final is anything else afterwards.
        assert set(outcomes[first:]) == {final}, (name, outcomes)
        assert final in allowed(kind, was_done=f"{kind} {name}" in effects), (name, final)
    assert len(told) == 4 * count


def allowed(kind: str, *, was_done: bool) -> set[str]:
    """Return what may be told in the end, by what is seen outside."""
    match kind:
        case "upsert":
            return {"performed"}
        case "steer":
            return {"performed", "failed outcome_unknown"} if was_done else {"failed outcome_unknown"}
        case "decide":
            return {"performed", "already_resolved approval_not_pending"} if was_done else set()
        case _:
            return {"performed"} if was_done else set()


async def one_life(directory: Path, first: int, chance: random.Random) -> bool:
    """Run until some more was done outside, kill, and return whether it was still at it."""
    process = subprocess.Popen([sys.executable, str(PROGRAM), str(directory), str(first), str(KEYS)])  # noqa: ASYNC220
    try:
        wanted = len(lines_of(directory / "effects")) + chance.randint(1, KEYS * 2)
        await until(lambda: process.poll() is not None or len(lines_of(directory / "effects")) >= wanted)
    finally:
        was_running = process.poll() is None
        if was_running:
            os.kill(process.pid, signal.SIGKILL)
        code = await anyio.to_thread.run_sync(process.wait)
    assert code in (0, -signal.SIGKILL)
    return was_running


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def told_of(path: Path) -> dict[tuple[str, str], list[str]]:
    """Return what was told of each key, in order."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in lines_of(path):
        kind, name, outcome = line.split(" ", 2)
        found.setdefault((kind, name), []).append(outcome.strip())
    return found
