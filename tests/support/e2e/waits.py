"""What real harnesses say of who waits for a person."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import lifebus
from lifebus.live.model.scripting import HOLD, prompt, run
from lifebus.live.programs.base import HarnessProgram, Turn
from lifebus.live.terminal import Terminal, in_terminal
from lifebus_contract import Receipt
from support.e2e.harness_run import HarnessRun, harness_run
from support.e2e.pinned import PINNED
from support.patience import PATIENCE_S

Told = tuple[object, object, object, object]
"""``begun`` or ``ended``, for what, for what kind of thing, and what ended it."""

_NAMES = ("waiting", "waiting_for", "waiting_kind", "waiting_ended_by")


async def waits_told(
    bus: lifebus.Bus, until: Callable[[list[Told]], bool], on_begun: Callable[[], Awaitable[None]] | None = None
) -> list[Told]:
    """Return what is said of waits from the start until enough is; `on_begun` is what a person does then."""
    told: list[Told] = []
    async for item in bus.receipts(waiting=True, since="start"):
        facts = item.telemetry_summary
        told.append((facts["waiting"], facts["waiting_for"], facts.get("waiting_kind"), facts.get("waiting_ended_by")))
        if told[-1][0] == "begun" and on_begun is not None:
            await on_begun()
        if until(told):
            break
    return told


@asynccontextmanager
async def dialog(harness: HarnessProgram, file: str) -> AsyncGenerator[tuple[HarnessRun, Terminal]]:
    """A real harness in a terminal that asks whether it may make a file; behind that the model answers no more."""
    async with harness_run(harness) as on, asking_in(on, file) as terminal:
        yield on, terminal


@asynccontextmanager
async def asking_in(on: HarnessRun, file: str) -> AsyncGenerator[Terminal]:
    """The harness of a run, in a terminal, as it asks."""
    asking = on.harness.asking
    assert asking is not None
    asking.prepare(on.box)
    turn = Turn(prompt("Work.", run(f"touch {file}"), HOLD))
    variables = PINNED[on.harness.adapter_id].program.variables | on.harness.environment(on.box, on.model.url)
    async with in_terminal(on.box, asking.command(turn), variables) as terminal:
        yield terminal


async def check_a_notice_of_a_dialog(harness: HarnessProgram, kind: str) -> None:
    """`lifebus notify` tells a person of a dialog that nobody has answered."""
    asked = ("notify", "--on", "waits", "--after", "0s", "--group", "0s", "--json", "--", "true")
    async with harness_run(harness) as on, asyncio.timeout(PATIENCE_S):
        variables = {"HOME": str(on.box.home), "LIFEBUS_RUNTIME_DIR": str(on.box.runtime_dir)}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "lifebus", *asked), stdout=PIPE, stderr=PIPE, env=os.environ | variables
        )
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert await process.stderr.readline()  # it follows from here on
            async with asking_in(on, "made"):
                notice = json.loads(await process.stdout.readline())
            assert [one["adapter_id"] for one in notice["notices"]] == [harness.adapter_id]
            assert notice["title"].endswith(f"waits for a permission ({kind})")
        finally:
            process.terminate()
            await process.communicate()


async def check_an_allowed_dialog(harness: HarnessProgram, kind: str) -> None:
    """What a person allows is waited for from the dialog to the tool's result, while the turn goes on."""
    async with dialog(harness, "made") as (on, terminal), asyncio.timeout(PATIENCE_S):

        async def allow() -> None:
            (one,) = (await on.bus.status()).waiting
            assert [(wait.waiting_for, wait.kind) for wait in one.waiting] == [("permission", kind)]
            (head,) = await on.bus.sessions()
            assert head.waiting == one.waiting
            assert harness.asking is not None
            await terminal.shows(harness.asking.dialog)
            await terminal.press_until(harness.asking.allow, (on.box.project / "made").exists)

        told = await waits_told(on.bus, lambda told: told[-1][0] == "ended", allow)
        assert told == [("begun", "permission", kind, None), ("ended", "permission", kind, "tool_result")]
        assert (await on.bus.status()).waiting == ()
        assert not await ended_turns(on)


async def check_a_refused_dialog(harness: HarnessProgram, kind: str, refusal: bytes) -> None:
    """What a person refuses is not waited for any more: the tool has its result, or the turn is over."""
    async with dialog(harness, "made") as (on, terminal), asyncio.timeout(PATIENCE_S):
        refused = asyncio.Event()

        async def refuse() -> None:
            assert harness.asking is not None
            await terminal.shows(harness.asking.dialog)
            await terminal.press_until(refusal, refused.is_set)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(refuse())
            told = await waits_told(on.bus, lambda told: told[-1][0] == "ended")
            refused.set()
        assert [one[:3] for one in told] == [("begun", "permission", kind), ("ended", "permission", kind)]
        assert told[-1][3] in {"tool_result", "turn_ended"}
        assert not (on.box.project / "made").exists()


async def ended_turns(on: HarnessRun) -> list[Receipt]:
    """Return the ends of turns so far."""
    return [one for one in await on.receipts() if one.event == "frame.ended"]
