"""The rules of ends over random lives: hooks, lines, ticks, foreign emissions, restarts and kills in any order."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.effort import effort
from support.supervisor.lives.folds import Folds
from support.supervisor.lives.life import Life
from support.supervisor.lives.words import SESSION, WORDS
from support.supervisor.supervised import supervised

TURNS = ("prompt", "prompt", "work", "work", "stop", "stop", "go_on", "failed", "interrupted", "blocked", "finished")
SESSIONS = ("end", "kill", "resume", "prompt_after_end", "child", "child_stop", "usage")
WORLD = ("tick", "tick", "observe", "wait", "restart", "away", "back", "repeat")
STRANGERS = ("both", "foreign_open", "foreign_end", "foreign_session_end", "foreign_else", "second")
STRAGGLERS = ("straggle", "straggle", "arrive")


def lives(*steps: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(steps), min_size=3, max_size=30)


def live(adapter_id: str, steps: list[str], end: str) -> None:
    """Live one life from its start to its end."""

    async def whole() -> None:
        with tempfile.TemporaryDirectory() as directory:
            async with supervised(Path(directory)) as rig:
                with Folds(rig, (adapter_id, SESSION)) as folds:
                    life = Life(rig, WORDS[adapter_id], folds)
                    await life.begin()
                    for step in steps:
                        await life.take(step)
                    await life.finish(end)

    asyncio.run(whole())


RANDOM = settings(
    max_examples=effort(20, 2_000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
HARNESSES = st.sampled_from(sorted(WORDS))
LAST = st.sampled_from(["kill", "end"])


@RANDOM
@given(adapter_id=HARNESSES, steps=lives(*TURNS, *SESSIONS, *WORLD), last=LAST)
def test_frames_and_sessions_end_once_and_truly_and_every_reader_says_the_same(
    adapter_id: str, steps: list[str], last: str
) -> None:
    live(adapter_id, steps, last)


@RANDOM
@given(adapter_id=HARNESSES, steps=lives(*TURNS, *SESSIONS, *WORLD, *STRANGERS, *STRAGGLERS), last=LAST)
def test_no_stranger_and_no_late_call_makes_a_frame_end_twice_or_readers_disagree(
    adapter_id: str, steps: list[str], last: str
) -> None:
    live(adapter_id, steps, last)
