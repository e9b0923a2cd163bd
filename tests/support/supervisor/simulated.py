"""A Codex session that is made up: what it does becomes hook calls and lines of a file, which arrive in their own time.

The harness is never wrong about itself, so whatever is recorded can be held against it.  Hooks and lines keep their own
order; neither is later than one tick, as in life.  While the broker is down hooks go into its spool.
"""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lifebus_adapters.shared.telemetry import Activity, Compacted, Fact, TurnEnded, TurnStarted, Usage
from lifebus_broker.ports import EMITTER
from lifebus_contract import SERVABLE_EVENTS, CallbackResponse, DispatchEnvelope, PressureLevel, Receipt
from support.supervisor.simulated_file import SESSION, WINDOW, SimulatedTail
from support.supervisor.supervised import HARNESS, SupervisedBus, supervised

SUPERVISOR = "lifebus.supervisor"


class Step(NamedTuple):
    """What happens next, and how much of it."""

    what: str
    size: int


class SimulatedSession:
    """One session, from its start to its end."""

    def __init__(self, rig: SupervisedBus) -> None:
        self.rig = rig
        self.file = SimulatedTail()
        self.turns = 0
        self.turn: str | None = None
        self.over: set[str] = set()
        self.children: list[str] = []
        self.compactions = 0
        self.down = False
        self.cut = False
        self.receipts: list[Receipt] = []
        self.position = 0
        self._lines: list[Fact] = []
        self._hooks: list[dict[str, Any]] = []
        self._spool: list[tuple[dict[str, Any], str]] = []
        self._calls = 0
        rig.restart(self.file)

    async def start(self) -> None:
        self._hook("SessionStart", source="startup")
        await self._give_hooks(1)

    # what the harness does

    async def take(self, step: Step) -> None:
        """Do one step."""
        do = getattr(self, f"_do_{step.what}")
        await do(step.size)
        await self._read()

    async def _read(self) -> None:
        self.receipts += await self.rig.since(self.position)
        self.position = self.rig.bus.ledger.head

    def _hook(self, name: str, **fields: Any) -> None:
        self._hooks.append({"hook_event_name": name, "session_id": SESSION, **fields})

    async def _do_prompt(self, _: int) -> None:
        if self.turn is not None:
            return
        self.turns += 1
        self.turn = f"t{self.turns}"
        self._hook("UserPromptSubmit", turn_id=self.turn)
        self._lines.append(TurnStarted(session=SESSION, frame_id=self.turn))

    async def _do_work(self, _: int) -> None:
        if self.turn is not None:
            self._lines.append(Activity(session=SESSION))

    async def _do_usage(self, used: int) -> None:
        if self.turn is not None:
            self._lines += [Usage(session=SESSION, used_tokens=used, used_source="x", window_tokens=WINDOW)] * 2

    async def _do_compact(self, _: int) -> None:
        self.compactions += 1
        self._hook("PreCompact", turn_id=self.turn or "c", trigger="auto")
        self._hook("PostCompact", turn_id=self.turn or "c", trigger="auto")
        self._lines.append(Compacted(session=SESSION, key=str(self.compactions)))

    async def _do_stop(self, _: int) -> None:
        if self.turn is not None:
            self._hook("Stop", turn_id=self.turn)
            self._end("completed")

    async def _do_blocked_stop(self, _: int) -> None:
        """Another tool's hook lets the turn go on: its end is reported all the same."""
        if self.turn is not None:
            self._hook("Stop", turn_id=self.turn)
            self.over.add(self.turn)

    async def _do_again(self, _: int) -> None:
        """A sub-agent in the background makes the last turn go on, without a prompt."""
        if self.turn is None and self.turns:
            self.turn = f"t{self.turns}"
            self._lines.append(TurnStarted(session=SESSION, frame_id=self.turn))

    async def _do_interrupt(self, _: int) -> None:
        """As with Esc: no hook reports it."""
        if self.turn is not None:
            self._end("interrupted")

    async def _do_fail(self, _: int) -> None:
        """The turn is over, and nothing reports it."""
        if self.turn is not None:
            self.over |= {self.turn, *self.children}
            self.turn, self.children = None, []

    async def _do_child(self, _: int) -> None:
        if self.turn is None:
            return
        if self.children:
            self._hook("SubagentStop", turn_id=self.turn, agent_id=self.children[-1], agent_type="x")
            self.over.add(self.children.pop())
        else:
            self._calls += 1
            self.children.append(f"a{self._calls}")
            self._hook("SubagentStart", turn_id=self.turn, agent_id=self.children[-1], agent_type="x")

    def _end(self, how: str) -> None:
        assert self.turn is not None
        self._lines.append(TurnEnded(session=SESSION, frame_id=self.turn, frame_end=how))
        self.over |= {self.turn, *self.children}
        self.turn, self.children = None, []

    # what the world does

    async def _do_file(self, count: int) -> None:
        self.file.lines += self._lines[:count]
        del self._lines[:count]

    async def _do_hook(self, count: int) -> None:
        await self._give_hooks(count)

    async def _give_hooks(self, count: int) -> None:
        given, self._hooks = self._hooks[:count], self._hooks[count:]
        for payload in given:
            self._calls += 1
            if self.down:
                self._spool.append((payload, f"call-{self._calls}"))
            elif not self.cut:
                await self.rig.hook("codex", payload, call_id=f"call-{self._calls}")

    async def _catch_up(self) -> None:
        """Neither hooks nor lines are later than one tick."""
        await self._give_hooks(len(self._hooks))
        await self._do_file(len(self._lines))

    async def _do_tick(self, _: int) -> None:
        if self.down:
            self.rig.clock.seconds += 2
            return
        await self.rig.tick()
        await self._catch_up()

    async def _do_observe(self, _: int) -> None:
        if not self.down:
            await self.rig.supervisor.poll_early()

    async def _do_restart(self, size: int) -> None:
        await self._do_down(size)
        await self._do_up(size)

    async def _do_down(self, _: int) -> None:
        self.down = True

    async def _do_up(self, size: int) -> None:
        """Start again; what is in the spool comes before, or after, what is open was recovered and polled."""
        if not self.down:
            return
        self.down = False
        self.file.restart()
        self.rig.restart(self.file)
        if size % 2:
            await self._drain()
        await self.rig.supervisor.recover()
        if size > 2:
            await self.rig.supervisor.poll_early()
        await self._drain()

    async def _drain(self) -> None:
        spool, self._spool = self._spool, []
        for payload, call_id in spool:
            await self.rig.hook("codex", payload, call_id=call_id, spooled_at_epoch_s=1_800_000_000)

    # how it ends

    async def settle(self) -> None:
        """Let everything arrive."""
        await self._do_up(1)
        await self._catch_up()
        await self._ticks(4)

    async def _ticks(self, count: int) -> list[Receipt]:
        before = self.rig.bus.ledger.head
        await self.rig.tick(count)
        await self._read()
        return [one for one in await self.rig.since(before) if one.event != "supervisor.tick"]

    async def finish(self, how: str) -> None:
        """End the session, reported or not, and wait until nothing more comes."""
        await self.settle()
        if how == "reported":
            self._hook("SessionEnd", reason="other")
            await self._catch_up()
        else:
            self._hook("PreToolUse", turn_id="t", tool_name="Bash", tool_use_id="x", tool_input={})
            await self._catch_up()
            await self._ticks(2)
        self.rig.dead.add(HARNESS)
        await self._ticks(5)

    async def check_at_the_end(self) -> None:
        assert await self._ticks(3) == []
        await self._do_restart(3)
        assert await self._ticks(3) == []
        self.check()
        (head,) = await self.rig.bus.ledger.sessions()
        assert (head.ended, head.open_frames) == (True, ())
        assert self._count("context.compacted") == self.compactions
        self._check_levels(self.file.levels)

    def check(self) -> None:
        """What holds at any time."""
        assert self._count("context.compacted") <= self.compactions
        self._check_levels(self.file.levels[: len(self._levels())])
        assert self._count("capability.degraded") == 0
        self._check_frames()

    def _check_levels(self, levels: list[PressureLevel]) -> None:
        """Each change of level is recorded; what is read of before a compaction that is on record already is not."""
        if not self.compactions:
            assert self._levels() == levels
            return
        known = iter(self.file.levels)
        assert all(level in known for level in self._levels()), (self._levels(), self.file.levels)

    def _check_frames(self) -> None:
        closed = Counter(
            one.telemetry_summary["frame_id"] for one in self._facts("frame.ended") if _is_by_supervisor(one)
        )
        opened = Counter(one.telemetry_summary["frame_id"] for one in self._facts("frame.opened"))
        assert all(count <= opened[frame] for frame, count in closed.items())
        gone = HARNESS in self.rig.dead
        assert gone or set(closed) <= self.over

    async def cut_hooks_in_a_turn(self) -> None:
        """From here on no hook comes, and there is another turn."""
        self.cut = True
        await self._do_stop(1)
        await self._ticks(4)
        await self._catch_up()
        await self._ticks(4)
        assert self._count("capability.degraded") == 0
        await self._do_prompt(1)
        await self._catch_up()
        receipts = await self._ticks(self.rig.limits.silence.hook_ticks + 1)
        assert [one.telemetry_summary.get("cause") for one in receipts] == ["hooks_silent"]
        assert await self._ticks(5) == []

    async def bring_hooks_back(self) -> None:
        self.cut = False
        await self._do_stop(1)
        await self._do_prompt(1)
        await self._catch_up()
        receipts = [one for one in await self._ticks(5) if one.event == "capability.degraded"]
        assert [one.status.value for one in receipts] == ["observed"]

    def _facts(self, event: str) -> list[Receipt]:
        """The receipts of an event, one for each time that it was recorded."""
        return list({(one.event_id, one.invocation_id): one for one in self.receipts if one.event == event}.values())

    def _count(self, event: str) -> int:
        return len(self._facts(event))

    def _levels(self) -> list[PressureLevel]:
        receipts = [one.telemetry_summary for one in self._facts("context.pressure_observed")]
        return [PressureLevel(str(facts["context_pressure"])) for facts in receipts if not facts.get("signal")]


def _is_by_supervisor(receipt: Receipt) -> bool:
    return SUPERVISOR in {receipt.client_id, receipt.telemetry_summary.get(EMITTER)}


@asynccontextmanager
async def simulated_session(directory: Path, *, clients: int) -> AsyncGenerator[SimulatedSession]:
    async def agree(_: DispatchEnvelope) -> CallbackResponse:
        return CallbackResponse.ok()

    async with supervised(directory) as rig:
        for number in range(clients):
            rig.bus.register(f"client{number}", SERVABLE_EVENTS, agree)
        life = SimulatedSession(rig)
        await life.start()
        yield life
