"""Random lives of a session that waits: asks, answers, sub-agents, late calls, compactions, restarts, two at once."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.effort import TORTURE, effort
from support.supervisor.supervised import supervised
from support.supervisor.waiting_life import Step, WaitingLife

WORDS = (
    "start", "prompt", "prompt", "ask", "ask", "ask", "remind", "question", "answer", "child", "stop", "fail", "end",
    "result", "result", "interrupt", "observe", "tick", "restart", "compact", "compact",
)  # fmt: skip
LIVES = settings(
    max_examples=effort(15, 600),
    # Every day the same ones; `make torture` looks for others.
    derandomize=not TORTURE,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def steps(beside: st.SearchStrategy[bool]) -> st.SearchStrategy[list[Step]]:
    one = st.builds(Step, st.sampled_from(WORDS), st.integers(0, 11), late=st.booleans(), beside=beside)
    return st.lists(one, min_size=3, max_size=25)


@settings(LIVES)
@given(taken=steps(st.just(False)))
def test_every_wait_begins_once_and_ends_once_and_in_time(taken: list[Step]) -> None:
    asyncio.run(live(taken, in_time=True))


@settings(LIVES)
@given(taken=steps(st.booleans()))
def test_whatever_happens_at_once_no_wait_begins_or_ends_twice(taken: list[Step]) -> None:
    asyncio.run(live(taken, in_time=False))


async def live(taken: list[Step], *, in_time: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with supervised(Path(directory)) as rig:
            life = WaitingLife(rig)
            await life.take([Step("start", 1), Step("prompt"), *taken])
            await life.settle()
            await life.check(in_time=in_time)
