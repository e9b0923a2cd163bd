"""The real Claude Code on the bus."""

import signal

from e2e.harnesses.base import Turn
from e2e.harnesses.claude import CLAUDE
from e2e.scripting import HOLD, fail, prompt, run, say
from e2e.stage import places, stage, text_at, told

START = ["session.starting startup", "session.started startup"]
RESUME = ["session.starting resume", "session.started resume"]
OPEN = ["frame.opening", "frame.opened"]
FRAME = [*OPEN, "frame.ending", "frame.ended completed"]
END = ["session.ending", "session.ended"]


async def test_a_session_with_a_tool_call_is_told_from_its_start_to_its_end() -> None:
    async with stage(CLAUDE) as on:
        await on.run(Turn(prompt("Look.", run("echo hi", 90_000), say("done", 90_100))))
        assert told(await on.receipts()) == [*START, *FRAME, *END]


async def test_a_resumed_session_goes_on_with_its_own_sequence() -> None:
    async with stage(CLAUDE) as on:
        await on.run(Turn(prompt("Begin.", say("begun"))))
        await on.run(Turn(prompt("Go on.", say("gone on")), await on.session()))
        assert told(await on.receipts()) == [*START, *FRAME, *END, *RESUME, *FRAME, *END]


async def test_a_compaction_on_command_is_told_once_and_is_no_frame() -> None:
    async with stage(CLAUDE) as on:
        await on.run(Turn(prompt("Fill.", say("filled", 150_000))))
        session = await on.session()
        await on.run(Turn("/compact keep it short", session))
        await on.run(Turn(prompt("Go on.", say("gone on")), session))
        compacted = [*RESUME, "context.compacted manual", *END]
        assert told(await on.receipts()) == [*START, *FRAME, *END, *compacted, *RESUME, *FRAME, *END]


async def test_the_words_of_a_client_reach_the_model_in_the_systems_message_after_the_prompt() -> None:
    async with stage(CLAUDE) as on:
        async with on.delivering(["session.starting", "frame.opening"]):
            await on.run(Turn(prompt("Listen.", say("heard"))))
        at_start, at_frame = text_at("session.starting"), text_at("frame.opening")
        (request,) = on.model.requests
        assert places(request, [at_start, at_frame, "Listen."]) == [
            ("user", "Listen."),
            ("system", at_start),
            ("system", at_frame),
        ]


async def test_a_model_error_ends_the_frame_as_failed() -> None:
    async with stage(CLAUDE) as on:
        async with on.started(Turn(prompt("Fail.", fail(500)))) as started:
            ran = await started.ended()
        assert ran.code == 1
        assert told(await on.receipts()) == [*START, *OPEN, "frame.ended failed", *END]


async def test_a_broker_that_is_away_loses_nothing_and_stops_nobody() -> None:
    async with stage(CLAUDE) as on:
        await on.broker.kill()
        await on.run(Turn(prompt("Work.", run("echo hi"), say("done"))))
        async with on.broker_again():
            await on.first(lambda receipt: receipt.event == "session.ended")
            receipts = await on.receipts()
        assert told(receipts) == [*START, *FRAME, *END]
        assert all("spooled_late" in [warning.code for warning in receipt.warnings] for receipt in receipts)


async def test_a_broker_that_hangs_stops_nobody() -> None:
    async with stage(CLAUDE) as on:
        on.broker.signal(signal.SIGSTOP)
        await on.run(Turn(prompt("Work.", run("echo hi"), say("done"))))
        on.broker.signal(signal.SIGCONT)
        await on.broker.kill()
        async with on.broker_again():
            await on.first(lambda receipt: receipt.event == "session.ended")
            assert told(await on.receipts()) == [*START, *FRAME, *END]


async def test_a_terminated_session_ends() -> None:
    async with stage(CLAUDE) as on:
        await on.stopped(Turn(prompt("Wait.", HOLD)), signal.SIGTERM)
        assert told(await on.receipts()) == [*START, *OPEN, *END]
