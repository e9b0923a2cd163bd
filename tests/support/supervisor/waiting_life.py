"""A session that waits for people in every way, one step after the other or two at once, and what must hold of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio

from lifebus_adapters.shared.telemetry import Activity, ToolsDone, TurnEnded
from lifebus_contract import LifecycleEvent, Receipt
from support.supervisor.supervised import SupervisedBus

SESSION: Final = "s1"
Known = tuple[object, ...]
"""For what, in which frame, under which id, and since when."""

_OF_TURNS: Final = {LifecycleEvent.FRAME_ENDING, LifecycleEvent.FRAME_ENDED}
_STARTS: Final = {LifecycleEvent.SESSION_STARTING, LifecycleEvent.SESSION_STARTED}
_OPENS: Final = {LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED}


@dataclass(frozen=True)
class Step:
    """Something that happens; `late` puts it into the past, `beside` has the next step happen at the same time."""

    word: str
    number: int = 0
    late: bool = False
    beside: bool = False


@dataclass
class WaitingLife:
    """What a harness does in a session, and what the supervisor makes of it."""

    rig: SupervisedBus
    turn: int = 0

    async def take(self, steps: Sequence[Step]) -> None:
        """Take steps in order, those that are beside each other at once."""
        together: list[Step] = []
        for step in steps:
            together.append(step)
            if not step.beside:
                await self._at_once(together)
                together = []
        await self._at_once(together)

    async def _at_once(self, steps: Sequence[Step]) -> None:
        monitor = self.rig.supervisor.monitors.get(("claude", SESSION))
        is_over = monitor is None or monitor.state.ended
        # A harness calls the hooks that begin and end a session one after the other.
        if is_over or any(step.word in {"start", "end"} for step in steps):
            for step in steps:
                await self._take(step)
        else:
            async with anyio.create_task_group() as tasks:
                for step in steps:
                    tasks.start_soon(self._take, step)
        # Nothing happens in the same millisecond as what was before it.
        self.rig.clock.seconds += 0.05

    async def _take(self, step: Step) -> None:
        await getattr(self, f"_{step.word}")(step)

    async def _hook(self, hook: str, step: Step, **more: Any) -> None:
        payload = {"session_id": SESSION, "transcript_path": "/t.jsonl", "hook_event_name": hook, **more}
        late = {"spooled_at_epoch_s": int(self.rig.clock.epoch()) - 1 - step.number % 20} if step.late else {}
        await self.rig.hook("claude", payload, **late)

    def _frame(self, step: Step) -> dict[str, Any]:
        named = {"prompt_id": f"t{self.turn}"}
        return {**named, "agent_id": "a1", "agent_type": "explorer"} if step.number % 4 == 3 else named

    async def _start(self, step: Step) -> None:
        await self._hook("SessionStart", step, source="startup" if step.number % 2 else "resume")

    async def _prompt(self, step: Step) -> None:
        self.turn += 1
        await self._hook("UserPromptSubmit", step, prompt_id=f"t{self.turn}")

    async def _ask(self, step: Step) -> None:
        tool = ("Bash", "Edit", "Write")[step.number % 3]
        await self._hook("PermissionRequest", step, tool_name=tool, tool_input={}, **self._frame(step))

    async def _remind(self, step: Step) -> None:
        kind = ("permission_prompt", "idle_prompt", "elicitation_dialog")[step.number % 3]
        await self._hook("Notification", step, notification_type=kind, message="PRIVATE", prompt_id=f"t{self.turn}")

    async def _question(self, step: Step) -> None:
        await self._hook("Elicitation", step, message="PRIVATE", **self._frame(step))

    async def _answer(self, step: Step) -> None:
        await self._hook("ElicitationResult", step, action="accept", **self._frame(step))

    async def _child(self, step: Step) -> None:
        hook = "SubagentStart" if step.number % 2 else "SubagentStop"
        await self._hook(hook, step, prompt_id=f"t{self.turn}", agent_id="a1", agent_type="explorer")

    async def _stop(self, step: Step) -> None:
        await self._hook("Stop", step, prompt_id=f"t{self.turn}", stop_hook_active=False)

    async def _fail(self, step: Step) -> None:
        await self._hook("StopFailure", step, prompt_id=f"t{self.turn}", error="server_error")

    async def _end(self, step: Step) -> None:
        await self._hook("SessionEnd", step, reason="other")

    async def _compact(self, step: Step) -> None:
        hook = ("PreCompact", "PostCompact")[step.number % 2]
        await self._hook(hook, step, trigger="auto", prompt_id=f"t{self.turn}")

    async def _result(self, step: Step) -> None:
        at_ms = int(self.rig.clock.epoch() * 1000) - (5_000 if step.late else 0) + step.number % 3
        self.rig.news("claude", SESSION, Activity(session=SESSION), ToolsDone(session=SESSION, at_ms=at_ms))
        await self._observe(step)

    async def _interrupt(self, step: Step) -> None:
        ended = TurnEnded(session=SESSION, frame_id=f"t{self.turn}", frame_end="interrupted", evidence="file")
        self.rig.news("claude", SESSION, ended)
        await self._observe(step)

    async def _observe(self, _: Step) -> None:
        await self.rig.supervisor.poll_early()

    async def _tick(self, step: Step) -> None:
        await self.rig.tick(1 + step.number % 3)

    async def _restart(self, step: Step) -> None:
        if not step.beside:
            await self.rig.restart().recover()

    async def settle(self) -> None:
        """Let everything that is due happen."""
        await self.rig.tick(6)

    async def check(self, *, in_time: bool) -> None:
        """What is recorded says the same as what is known: each wait begins once and ends at most once.

        With `in_time` each end stands before the event behind which nobody can wait so any more.
        """
        waiting = replayed(await self.rig.since(0), in_time=in_time)
        monitor = self.rig.supervisor.monitors.get(("claude", SESSION))
        known = () if monitor is None else monitor.waits
        assert {(one.waiting_for, one.frame_id, one.request, one.since_ms) for one in known} == waiting
        assert len(known) == len(waiting)
        assert monitor is None or monitor.waits_under_way == ()


def replayed(receipts: Sequence[Receipt], *, in_time: bool) -> set[Known]:
    """Return what is waited for behind these receipts."""
    waiting: set[Known] = set()
    for one in receipts:
        facts = one.telemetry_summary
        if "waiting" in facts:
            known = tuple(facts.get(name) for name in ("waiting_for", "frame_id", "waiting_id", "waiting_since_ms"))
            if facts["waiting"] == "begun":
                assert known not in waiting, f"{known} begins again"
                assert not any(other[:3] == known[:3] for other in waiting), f"{known} begins beside another one"
                waiting.add(known)
            else:
                assert known in waiting, f"{known} ends, and was not waited for"
                waiting.discard(known)
            continue
        left = {known for known in waiting if _ends(one, known)}
        assert not (left and in_time), f"{one.event.value} of {facts.get('frame_id')} finds {left}"
        if one.event is not LifecycleEvent.FRAME_ENDING:  # it only announces
            waiting -= left
    return waiting


def _ends(receipt: Receipt, known: Known) -> bool:
    """Whether nobody can wait so any more behind this event; written down from docs/waiting.md."""
    facts, (waiting_for, frame, _, _) = receipt.telemetry_summary, known
    nested = "parent_frame_id" in facts
    if receipt.event in _STARTS or receipt.event is LifecycleEvent.SESSION_ENDED:
        return True
    if receipt.event in _OPENS:
        return waiting_for == "idle" and not nested
    if receipt.event in _OF_TURNS and waiting_for != "idle":
        return frame == facts.get("frame_id") or (frame is None and not nested)
    return False
