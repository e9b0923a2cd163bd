"""The rules of ends over random lives: hooks, lines, ticks, foreign emissions, restarts and kills in any order."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lifebus
from lifebus_adapters.shared.telemetry import Activity, TurnContinued, TurnEnded
from lifebus_broker.ports import EMITTER
from lifebus_contract import Emission, FrameClass, FrameContext, Receipt
from support.effort import effort
from support.supervisor.supervised import HARNESS, SupervisedBus, supervised
from support.supervisor.turns import SESSION, START, prompt, stop

HARNESS_DOES = ("prompt", "prompt", "stop", "stop", "blocked_stop", "failed", "interrupted", "work")
WORLD_DOES = ("tick", "observe", "wait", "both", "foreign_open", "foreign_end", "foreign_else", "restart", "again")
STEPS = (*HARNESS_DOES, *WORLD_DOES)
LIVES = st.lists(st.sampled_from(STEPS), min_size=3, max_size=30)


class Life:
    """One session that is known to itself: which turn runs, and how each one really ended."""

    def __init__(self, rig: SupervisedBus, adapter_id: str) -> None:
        self.rig = rig
        self.adapter_id = adapter_id
        self.turns = 0
        self.running = False
        self.stopped = False
        self.really: dict[str, str] = {}
        self.foreign: set[str] = set()
        self.calls: list[tuple[dict[str, Any], str]] = []

    @property
    def turn(self) -> str:
        return f"t{self.turns}"

    async def hook(self, payload: dict[str, Any]) -> list[str]:
        call_id = f"own-{len(self.calls)}"
        self.calls.append((payload, call_id))
        return [one.event.value for one in await self.rig.hook(self.adapter_id, payload, call_id=call_id)]

    def line(self, *facts: Any) -> None:
        self.rig.news(self.adapter_id, SESSION, *facts)

    async def take(self, step: str) -> None:
        await getattr(self, f"_{step}")()
        await self.check()

    async def _prompt(self) -> None:
        if self.running and not self.stopped:
            return
        if self.stopped:
            self.really[self.turn] = "completed"
        self.turns += 1
        self.running, self.stopped = True, False
        await self.hook(prompt(self.turn))

    async def _stop(self) -> None:
        if self.running and not self.stopped:
            events = await self.hook(stop(self.turn))
            assert "frame.ending" in events or self.turn in self.foreign
            self.stopped = True

    async def _blocked_stop(self) -> None:
        if self.running and not self.stopped:
            await self.hook(stop(self.turn))
            self.line(TurnContinued(session=SESSION, frame_id=self.turn))

    async def _end(self, how: str) -> None:
        if self.running and not self.stopped:
            self.line(TurnEnded(session=SESSION, frame_id=self.turn, frame_end=how))
            self.really[self.turn] = how
            self.running = False
            await self.rig.tick(3)

    async def _failed(self) -> None:
        await self._end("failed")

    async def _interrupted(self) -> None:
        await self._end("interrupted")

    async def _work(self) -> None:
        self.line(Activity(session=SESSION))

    async def _tick(self) -> None:
        await self.rig.tick()

    async def _observe(self) -> None:
        await self.rig.supervisor.poll_early()

    async def _wait(self) -> None:
        self.rig.clock.seconds += 0.5
        await self.rig.supervisor.settle()

    async def _both(self) -> None:
        """A stop, a foreign end and a pass at the same time."""
        self.rig.clock.seconds += 2
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.rig.supervisor.tick)
            tasks.start_soon(self._stop)
            tasks.start_soon(self.rig.supervisor.settle)

    async def _foreign(self, event: str, frame: str | None) -> None:
        context = None if frame is None else FrameContext(frame_id=frame, frame_class=FrameClass.TOP_LEVEL)
        request = lifebus.make_request(event, self.adapter_id, session=SESSION, frame=context)
        await self.rig.bus.emit("somebody", [Emission(request=request)])

    async def _foreign_open(self) -> None:
        self.foreign.add("x1")
        await self._foreign("frame.opened", "x1")

    async def _foreign_end(self) -> None:
        if self.turns:
            self.foreign.add(self.turn)
            await self._foreign("frame.ended", self.turn)

    async def _foreign_else(self) -> None:
        await self._foreign("supervisor.tick", None)

    async def _restart(self) -> None:
        self.rig.restart()
        await self.rig.supervisor.recover()

    async def _again(self) -> None:
        """A call that came already comes again, from a spool."""
        payload, call_id = self.calls[len(self.calls) // 2]
        await self.rig.hook(self.adapter_id, payload, call_id=call_id, spooled_at_epoch_s=1_800_000_000)

    async def finish(self) -> None:
        """Kill the harness, and let everything be settled."""
        if self.running:
            self.really[self.turn] = "completed" if self.stopped else "abandoned"
        self.rig.dead.add(HARNESS)
        await self.rig.tick(6)
        (head,) = await self.rig.bus.ledger.sessions()
        assert (head.ended, head.open_frames) == (True, ())
        ends = await self.check()
        known = {turn: how for turn, how in self.really.items() if turn not in self.foreign}
        assert {turn: ends.get(turn) for turn in known} == known

    async def check(self) -> dict[str, object]:
        """Return how each frame ended, from a fold of the receipts of its own; the other folds agree with it."""
        open_frames: list[str] = []
        ends: dict[str, object] = {}
        seen: set[tuple[str, str]] = set()
        ended = False
        for receipt in await self.rig.since(0):
            mark = (receipt.event_id, receipt.invocation_id)
            if mark in seen or receipt.harness_session_id != SESSION:
                continue
            seen.add(mark)
            event, frame = receipt.event.value, str(receipt.telemetry_summary.get("frame_id"))
            assert not ended or event in {"session.starting", "session.started"} or _is_foreign(receipt)
            ended = event == "session.ended" or (ended and not event.startswith(("session.start", "frame.open")))
            if event in {"frame.opening", "frame.opened"} and frame not in open_frames:
                open_frames.append(frame)
                assert frame not in ends, "a frame that has ended opens again"
            elif event == "frame.ended":
                assert frame not in ends, "a frame ends twice"
                ends[frame] = receipt.telemetry_summary.get("frame_end")
                open_frames = [one for one in open_frames if one != frame]
        (head,) = await self.rig.bus.ledger.sessions()
        assert (head.ended, list(head.open_frames)) == (ended, open_frames)
        monitor = self.rig.supervisor.monitors.get((self.adapter_id, SESSION))
        if monitor is not None and monitor.loaded and monitor.position >= self.rig.bus.ledger.head:
            assert monitor.is_live is not ended
            assert [one.frame_id for one in monitor.state.frames] == open_frames
        return ends


def _is_foreign(receipt: Receipt) -> bool:
    return "somebody" in {receipt.client_id, receipt.telemetry_summary.get(EMITTER)}


@settings(max_examples=effort(25, 800), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=LIVES, adapter_id=st.sampled_from(["codex", "claude"]))
def test_a_frame_ends_once_and_truly_and_all_folds_agree_whatever_happens_in_between(
    steps: list[str], adapter_id: str
) -> None:
    async def live() -> None:
        with tempfile.TemporaryDirectory() as directory:
            async with supervised(Path(directory)) as rig:
                life = Life(rig, adapter_id)
                await life.hook(START)
                await rig.tick()  # its process outlives the call, and so is the harness
                for step in steps:
                    await life.take(step)
                await life.finish()

    asyncio.run(live())
