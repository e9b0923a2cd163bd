"""The scenarios: what is done with a harness.  What has to be recorded stands in expected.toml."""

import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from lifebus.live.live_run import LiveRun
from lifebus.live.model.scripting import HOLD, agent, fail, prompt, run, say
from lifebus.live.programs.base import HookPoint, Turn


@dataclass(frozen=True)
class Scenario:
    """Something that a person does with a harness, or that happens to it.

    `refusing`: what a hook of somebody else refuses in it, and how often.  `ends_well`: the last run of the harness
    exits with 0.
    """

    name: str
    title: str
    act: Callable[[LiveRun], Awaitable[None]]
    refusing: tuple[HookPoint, int] | None = None
    ends_well: bool = True


async def _plain_turn(on: LiveRun) -> None:
    await on.run(Turn(prompt("Begin.", say("begun"))))


async def _tool_turn(on: LiveRun) -> None:
    await on.run(Turn(prompt("Look.", run("echo hi"), say("done"))))


async def _denied_tool(on: LiveRun) -> None:
    await on.run(Turn(prompt("Try.", run(f"touch {on.reached}"), say("tried"))))


async def _stop_blocked(on: LiveRun) -> None:
    await on.run(Turn(prompt("Work.", say("one"), say("two"), say("three"))))


async def _model_error_400(on: LiveRun) -> None:
    await on.run(Turn(prompt("Fail.", fail(400))))


async def _model_error_500(on: LiveRun) -> None:
    await on.run(Turn(prompt("Fail.", fail(500))))


async def _sigint(on: LiveRun) -> None:
    await on.stopped(Turn(prompt("Wait.", HOLD)), signal.SIGINT, on.model.held.is_set)


async def _sigterm(on: LiveRun) -> None:
    await on.stopped(Turn(prompt("Wait.", HOLD)), signal.SIGTERM, on.model.held.is_set)


async def _sigkill_in_tool(on: LiveRun) -> None:
    working = prompt("Work.", run(f"touch {on.reached}; sleep 30"), say("done"))
    await on.stopped(Turn(working), signal.SIGKILL, on.reached.exists)


async def _sigkill_in_continuation(on: LiveRun) -> None:
    await on.stopped(Turn(prompt("Work.", say("one"), HOLD)), signal.SIGKILL, on.model.held.is_set)


async def _resume(on: LiveRun) -> None:
    await on.run(Turn(prompt("Begin.", say("begun"))))
    await on.settled()
    await on.run(Turn(prompt("Go on.", say("gone on")), await on.session()))


async def _resume_after_sigkill(on: LiveRun) -> None:
    await on.stopped(Turn(prompt("Wait.", HOLD)), signal.SIGKILL, on.model.held.is_set)
    await on.settled()
    await on.run(Turn(prompt("Go on.", say("gone on")), await on.session()))


async def _sub_agent(on: LiveRun) -> None:
    await on.run(Turn(prompt("Delegate.", agent("look around"), run("sleep 3"), say("delegated"))))


async def _compaction(on: LiveRun) -> None:
    session = None
    for words in on.harness.compacting:
        await on.run(Turn(words, session))
        await on.settled()
        session = await on.session()


async def _broker_away(on: LiveRun) -> None:
    await on.broker.kill()
    await on.run(Turn(prompt("Work.", run("echo hi"), say("done"))))


async def _broker_hung(on: LiveRun) -> None:
    on.broker.signal(signal.SIGSTOP)
    await on.run(Turn(prompt("Work.", run("echo hi"), say("done"))))
    on.broker.signal(signal.SIGCONT)
    await on.broker.kill()


async def _permission_asked(on: LiveRun) -> None:
    await on.asked(Turn(prompt("Work.", run(f"touch {on.reached}"), say("done"))))


async def _untrusted_hooks(on: LiveRun) -> None:
    await on.run(Turn(prompt("Work.", *[run("sleep 1")] * 5, say("done")), trusting=False))


_ALL: Final = (
    Scenario("plain_turn", "plain turn", _plain_turn),
    Scenario("tool_turn", "tool turn", _tool_turn),
    Scenario("denied_tool", "denied tool", _denied_tool, ("tool", 9)),
    Scenario("prompt_blocked", "prompt blocked by another hook", _plain_turn, ("prompt", 9), ends_well=False),
    Scenario("stop_blocked_twice", "stop blocked twice", _stop_blocked, ("stop", 2)),
    Scenario("model_error_400", "model error 400", _model_error_400, ends_well=False),
    Scenario("model_error_500", "model error 500", _model_error_500, ends_well=False),
    Scenario("sigint", "SIGINT", _sigint, ends_well=False),
    Scenario("sigterm", "SIGTERM", _sigterm, ends_well=False),
    Scenario("sigkill_in_tool", "SIGKILL in a tool call", _sigkill_in_tool, ends_well=False),
    Scenario(
        "sigkill_in_continuation", "SIGKILL in a continuation", _sigkill_in_continuation, ("stop", 1), ends_well=False
    ),
    Scenario("resume", "resume", _resume),
    Scenario("resume_after_sigkill", "resume after SIGKILL", _resume_after_sigkill),
    Scenario("sub_agent", "sub-agent", _sub_agent),
    Scenario("compaction", "compaction", _compaction),
    Scenario("broker_away", "broker away", _broker_away),
    Scenario("broker_hung", "broker hung", _broker_hung),
    Scenario("permission_asked", "a person is asked", _permission_asked, ends_well=False),
    Scenario("untrusted_hooks", "untrusted hooks", _untrusted_hooks),
)

SCENARIOS: Final = {one.name: one for one in _ALL}
"""Every scenario by its name, in the order of the matrix."""
