"""One session that is known to itself, and the world around it: passes, restarts, spools and strangers."""

from typing import Any

import anyio

import lifebus
from lifebus_adapters import CallerProcess
from lifebus_contract import Emission, FrameClass, FrameContext
from support.supervisor.lives.folds import STRANGER, Told
from support.supervisor.lives.random_harness import LateCall, RandomHarness
from support.supervisor.lives.words import SESSION


class Life(RandomHarness):
    """Every step is one of the harness or of its world."""

    async def take(self, step: str) -> None:
        """Do one step, and hold the folds and the rules against what there is now."""
        await getattr(self, f"_{step}")()
        await self._check()

    async def _check(self) -> Told:
        told = await self.folds.check()
        if self._alive and self._open and self._running and not (self._stopped or self._shown or self._agents):
            assert self.turn in self.unsure or self.turn not in told.ends, "a turn that goes on has ended"
        return told

    # what the world does

    async def _wait(self) -> None:
        self.rig.clock.seconds += 0.5
        if self._spool is None:
            await self.rig.supervisor.settle()

    async def _restart(self) -> None:
        if self._spool is None:
            self._forget()
            await self.rig.supervisor.recover()

    def _forget(self) -> None:
        """Start the broker again: a file is history then, from its first line."""
        self.rig.restart()
        self._restarted = True
        if self._taken and not self.words.file_names:
            self.unsure.add(self.turn)  # an old line without a name shows no turn taken
        if self._lines:
            self.rig.news(
                self.words.adapter_id, SESSION, *self._lines, source_id=self.words.source, grown=0, history=True
            )

    async def _away(self) -> None:
        """The broker is away: calls go to the spool."""
        if self._spool is None:
            self._spool = []

    async def _back(self) -> None:
        """The broker comes back; the spool is read before, or after, what is open was recovered."""
        if self._spool is None:
            return
        spool, self._spool = self._spool, None
        self._forget()
        if len(spool) % 2:
            await self._drain(spool)
            await self.rig.supervisor.recover()
        else:
            await self.rig.supervisor.recover()
            await self._drain(spool)
        await self.rig.tick()

    async def _drain(self, spool: list[LateCall]) -> None:
        for late in spool:
            payload, call_id, process, at = late
            settings: dict[str, Any] = {"call_id": call_id, "process": process, "spooled_at_epoch_s": at}
            if await self.rig.hook(self.words.adapter_id, payload, **settings):
                self._recorded.append(late)

    async def _repeat(self) -> None:
        """A call that is on record already comes again, from a spool."""
        if self._spool is None:
            await self._drain([self._recorded[len(self._recorded) // 2]])

    # what strangers and stragglers do

    async def _straggle(self) -> None:
        """The next call comes late."""
        self._straggles = self._spool is None

    async def _arrive(self) -> None:
        """What is late arrives."""
        if self._spool is None:
            late, self._straggling = self._straggling, []
            if late:
                self._doubt_all()
            await self._drain(late)

    async def _both(self) -> None:
        """A stop, and passes, at the same time."""
        if self._spool is None:
            self._doubt_all()
            self.rig.clock.seconds += 2
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.rig.supervisor.tick)
                tasks.start_soon(self._stop)
                tasks.start_soon(self.rig.supervisor.settle)

    async def _foreign(self, event: str, frame: str | None) -> None:
        context = None if frame is None else FrameContext(frame_id=frame, frame_class=FrameClass.TOP_LEVEL)
        request = lifebus.make_request(event, self.words.adapter_id, session=SESSION, frame=context)
        await self.rig.bus.emit(STRANGER, [Emission(request=request)])

    async def _foreign_open(self) -> None:
        self._doubt_all()  # an opened frame takes back that the session ends
        self.unsure.add("x1")
        await self._foreign("frame.opened", "x1")

    async def _foreign_end(self) -> None:
        if self._turns:
            self._doubt_all()
            await self._foreign("frame.ended", self.turn)

    async def _foreign_session_end(self) -> None:
        self._doubt_all()
        await self._foreign("session.ended", None)

    async def _foreign_else(self) -> None:
        await self._foreign("supervisor.tick", None)

    async def _second(self) -> None:
        """Another process opens the session while this one lives, and has it from now on."""
        if self._alive and self._open and self._spool is None:
            self._doubt_all()
            await self._hook(self.words.start("resume"))
            self._processes += 1
            self._process = CallerProcess(pid=5_000 + self._processes, started="boot:200")
            await self._hook(self.words.start("resume"))
            await self.rig.tick()

    # how it ends

    async def finish(self, how: str) -> dict[str, Any]:
        """Let everything arrive, end the session, and wait; return what was recorded against what really was."""
        await self.take("back")
        await self.take("arrive")
        await self.rig.tick(2)
        await self.take(how)
        self._alive = False
        await self.rig.tick()
        self.rig.dead |= set(self._made)
        await self.rig.tick(6)
        told = await self._check()
        self.folds.check_replay()
        known = {frame: end for frame, end in self.really.items() if frame not in self.unsure}
        ended = {frame: told.ends.get(frame) for frame in known}
        assert ended == known, f"frames ended {ended}, and really {known}"
        ends, really = told.session_ends, self.session_really
        assert self.session_unsure or ends == really, f"the session ended {ends}, and really {really}"
        assert self.session_unsure or told.word == (True, []), f"the session is left as {told.word}"
        return known
