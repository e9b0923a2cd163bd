"""Random lives of a session against a small model: hooks, files and restarts in any order; nothing is said twice."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.effort import effort
from support.supervisor.simulated import Step, simulated_session

HARNESS_DOES = ("prompt", "work", "usage", "compact", "stop", "blocked_stop", "interrupt", "fail", "child", "again")
WORLD_DOES = ("file", "hook", "tick", "tick", "observe", "restart", "down", "up")

STEPS = st.lists(
    st.one_of(
        st.builds(Step, st.sampled_from(HARNESS_DOES), st.integers(0, 1_000)),
        st.builds(Step, st.sampled_from(WORLD_DOES), st.integers(1, 4)),
    ),
    min_size=4,
    max_size=40,
)


@settings(max_examples=effort(20, 600), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, clients=st.integers(0, 2), end=st.sampled_from(["reported", "killed"]))
def test_one_fact_gives_one_receipt_in_any_order_of_hooks_files_and_restarts(
    steps: list[Step], clients: int, end: str
) -> None:
    async def live() -> None:
        with tempfile.TemporaryDirectory() as directory:
            async with simulated_session(Path(directory), clients=clients) as life:
                for step in steps:
                    await life.take(step)
                    life.check()
                await life.finish(end)
                await life.check_at_the_end()

    asyncio.run(live())


@settings(max_examples=effort(10, 250), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
def test_hooks_that_are_cut_are_noticed_and_so_is_their_return(steps: list[Step]) -> None:
    async def live() -> None:
        with tempfile.TemporaryDirectory() as directory:
            async with simulated_session(Path(directory), clients=0) as life:
                for step in steps:
                    await life.take(step)
                await life.settle()
                await life.cut_hooks_in_a_turn()
                await life.bring_hooks_back()

    asyncio.run(live())
