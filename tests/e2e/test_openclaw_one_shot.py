"""The real OpenClaw as a step of a flow: one prompt in its one-shot mode."""

from lifebus.live.programs.openclaw import OPENCLAW
from support.e2e.one_shots import check_a_good_end, check_a_refusal, check_an_abort


async def test_a_prompt_ends_well_with_the_session_and_the_tokens_that_the_bus_has() -> None:
    await check_a_good_end(OPENCLAW)


async def test_a_model_that_refuses_is_no_good_end_and_says_why() -> None:
    await check_a_refusal(OPENCLAW, why="authentication failed")  # in its own words


async def test_a_harness_of_an_aborted_run_is_ended_with_all_that_it_has_started() -> None:
    await check_an_abort(OPENCLAW)
