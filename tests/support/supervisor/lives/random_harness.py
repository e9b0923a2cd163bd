"""A harness with one session: what it does, and how each of its frames really ended."""

from lifebus_adapters import CallerProcess
from lifebus_adapters.shared.telemetry import Activity, Fact, TurnContinued, TurnEnded, TurnStarted, Usage
from lifebus_broker.state.session_state import SessionState
from lifebus_supervisor.supervision.monitor.process import process_text
from support.supervisor.lives.folds import Folds
from support.supervisor.lives.words import SESSION, Payload, Words
from support.supervisor.supervised import HARNESS, SupervisedBus

_WINDOW = 1_000
_NUMBERED = "turn-"

LateCall = tuple[Payload, str, CallerProcess, int]
"""A call as a spool holds it: payload, id, caller, and when it was made."""


class RandomHarness:
    """A harness whose every step is done only where it can happen.

    `really` says how frames ended, as the harness knows; `session_really` how its session did, each time.  What
    strangers and stragglers make undecidable is in `unsure`; then only the rules of every moment are held.
    """

    def __init__(self, rig: SupervisedBus, words: Words, folds: Folds) -> None:
        self.rig, self.words, self.folds = rig, words, folds
        self.really: dict[str, str] = {}
        self.session_really: list[str] = []
        self.unsure = folds.unsure
        self.session_unsure = False
        self._process = HARNESS
        self._processes = 1
        self._alive = self._open = True
        self._turns = self._children = self._calls = 0
        self._running = self._stopped = self._taken = self._again = False
        self._shown: str | None = None
        self._at_work = self._alive_before = self._doubts = self._restarted = False
        self._agents: dict[str, bool] = {}
        self._lines: list[Fact] = []
        self._made: list[CallerProcess] = []
        self._recorded: list[LateCall] = []
        self._spool: list[LateCall] | None = None
        self._straggling: list[LateCall] = []
        self._straggles = False

    @property
    def turn(self) -> str:
        """The id of the newest turn."""
        return f"{_NUMBERED if not self.words.names else 't'}{self._turns}"

    async def begin(self) -> None:
        """Start, and let a tick pass: the process outlives its first call."""
        await self._hook(self.words.start("startup"))
        await self.rig.tick()

    # what the harness does

    async def _hook(self, payload: Payload) -> list[str]:
        self._calls += 1
        call_id = f"own-{self._calls}"
        self._made.append(self._process)
        late = (payload, call_id, self._process, int(self.rig.clock.epoch()))
        if self._spool is not None:
            self._spool.append(late)
            return []
        if self._straggles:
            self._straggles = False
            self._straggling.append(late)
            self._doubt_all()
            return []
        receipts = await self.rig.hook(self.words.adapter_id, payload, call_id=call_id, process=self._process)
        if receipts:
            self._recorded.append(late)
        return [one.event.value for one in receipts]

    def _line(self, *facts: Fact) -> None:
        self._lines += facts
        if self._spool is None:
            self.rig.news(self.words.adapter_id, SESSION, *facts, source_id=self.words.source)

    @property
    def _named(self) -> str | None:
        return self.turn if self.words.file_names else None

    async def _prompt(self) -> None:
        is_over = self._stopped or self._shown is not None or not self._taken
        if not self._alive or (self._running and not (is_over and not self._at_work_unstopped())):
            return
        if self._running and self._stopped and not self.words.names:
            await self._settle_first()
        await self._next_turn()

    def _at_work_unstopped(self) -> bool:
        return self._at_work and not self._stopped and self._shown is None

    async def _settle_first(self) -> None:
        """A harness whose prompts have no ids is asked again once the last turn's end is settled."""
        if self._spool is not None:
            self._doubt_all()
            self._doubts = True  # the numbers of later turns depend on it
            return
        await self.rig.supervisor.poll_early()
        self.rig.clock.seconds += 1.5
        await self.rig.supervisor.settle()

    async def _next_turn(self) -> None:
        leaves_open = self._running and not self._stopped and self._shown is None
        if self._running:
            self._close_turn("completed" if self._stopped else "abandoned")
        if leaves_open and self._alive_before:
            self.unsure.add(self.turn)  # with two processes there may be two turns
        self._open = self._running = True
        self._stopped = self._taken = self._again = self._at_work = False
        self._shown = None
        self._turns += 1
        if self._doubts:
            self._doubt_all()
        await self._hook(self.words.prompt(self.turn))
        if leaves_open and not self.words.announces:
            await self._observe()

    def _close_turn(self, otherwise: str) -> None:
        """Note how the turn and what stands in it ended."""
        self.really[self.turn] = self._shown or otherwise
        for agent, stopped in self._agents.items():
            self.really[agent] = "completed" if stopped else "abandoned"
        self._agents = {}
        self._running = False

    async def _work(self) -> None:
        if self._alive and self._running and not self._stopped and self._shown is None:
            if not self._taken:
                self._at_work = self.words.adapter_id in {"codex", "openclaw"}
                self._line(TurnStarted(session=SESSION, frame_id=self._named, reports_end=self._at_work))
            self._taken = True
            self._line(Activity(session=SESSION))

    async def _usage(self) -> None:
        if self._alive and self._running and self._taken and not self._stopped and self._shown is None:
            used, window = 90 * (self._calls % 11), _WINDOW if self._calls % 3 else None
            self._line(Usage(session=SESSION, used_tokens=used, used_source="x", window_tokens=window))

    async def _stop(self) -> None:
        if not self._alive or not self._running or self._stopped or self._shown is not None:
            return
        events: list[str] = []
        for payload in self.words.stop(self.turn, self._again):
            events += await self._hook(payload)
        self._stopped = True
        if self._spool is None and self.turn not in self.unsure:
            assert "frame.ending" in events, "an end is not announced at once"
        if not self.words.announces:
            self._shown = "completed"

    async def _go_on(self) -> None:
        """Another hook refuses the stop."""
        can = self.words.goes_on is not None or self.words.file_goes_on
        if not can or not self._alive or not self._running or self._stopped or self._shown is not None:
            return
        await self._stop()
        if self.words.goes_on is not None:
            await self._hook(self.words.goes_on(self.turn))
        else:
            self._line(TurnContinued(session=SESSION, frame_id=self.turn))
        self._taken = True
        self._stopped, self._again = False, True

    async def _show(self, how: str) -> None:
        """The file shows how the turn ended, and no hook does."""
        if not self._alive or not self._running or self._stopped or self._shown is not None:
            return
        self._line(TurnEnded(session=SESSION, frame_id=self._named, frame_end=how))
        self._shown, self._at_work = how, False
        if self._spool is None:
            await self.rig.tick(3)
        elif not self.words.file_names:
            self._doubt_all()

    async def _failed(self) -> None:
        await self._show("failed")

    async def _interrupted(self) -> None:
        await self._show("interrupted")

    async def _blocked(self) -> None:
        if not self._taken and not self._again:
            await self._show("blocked")

    async def _finished(self) -> None:
        """The file shows the end that a stop has announced."""
        if self._alive and self._running and self._stopped and self._shown is None:
            self._line(TurnEnded(session=SESSION, frame_id=self._named))
            self._shown, self._at_work = "completed", False

    async def _child(self) -> None:
        if self.words.child is not None and self._alive and self._running and not self._stopped and not self._shown:
            await self._work()
            self._children += 1
            self._agents[f"a{self._children}"] = False
            await self._hook(self.words.child(self.turn, f"a{self._children}"))

    async def _child_stop(self) -> None:
        agent = next((name for name, stopped in self._agents.items() if not stopped), None)
        if (
            self.words.child_stop is not None
            and self._alive
            and self._running
            and agent is not None
            and not self._shown
        ):
            self._agents[agent] = True
            await self._hook(self.words.child_stop(self.turn, agent))

    async def _end(self) -> None:
        """The harness ends the session by itself."""
        if self.words.ends is None or not self._alive or not self._open:
            return
        if self._running:
            self._close_turn("completed" if self._stopped else "abandoned" if self._taken else "unknown")
        self._open = False
        self.session_really.append("completed")
        await self._hook(self.words.ends)

    async def _kill(self) -> None:
        """The process is killed, once it is known."""
        if not self._alive or not self._is_known():
            return
        self._alive = False
        self.rig.dead.add(self._process)
        if not self._open:
            return
        at_work = not (self._stopped or self._shown) or self._at_work
        killed = self._running and (at_work or (self._shown is None and not all(self._agents.values())))
        if self._running:
            self._close_turn("abandoned" if at_work else "completed")
        self._open = False
        self.session_really.append("abandoned" if killed else "process_gone")

    def _is_known(self) -> bool:
        """Whether supervision can know the process: it called twice, or outlived a call."""
        state: SessionState | None = self.folds.state
        if state is not None and state.process == process_text(self._process):
            return True
        return self._made.count(self._process) > 1

    async def _resume(self) -> None:
        """The session is started again: by the same process after its end, or by another one."""
        if self._open:
            return
        await self._come_back()
        if self.words.resumes:
            self._open = True
            await self._hook(self.words.start("resume"))
        else:
            await self._next_turn()
        await self._tick()

    async def _prompt_after_end(self) -> None:
        """A prompt comes without any start."""
        if not self._open:
            await self._come_back()
            await self._next_turn()
            await self._tick()

    async def _come_back(self) -> None:
        if self._spool is not None:  # what is resumed while nobody saw its process gone is one life to the ledger
            self.session_unsure = self._alive_before = True
            self._doubts |= not self.words.names
            self.unsure |= self.really.keys() - self.folds.told.ends.keys()
        if not self._alive or self._processes % 2:
            self._alive_before |= self._alive
            # Which process ended a session is not on record: after a restart both of them have it open.
            self.session_unsure |= self._alive and self._restarted
            self._processes += 1
            self._process = CallerProcess(pid=5_000 + self._processes, started="boot:200")
            self._alive = True

    def _doubt_all(self) -> None:
        """Nothing is certain from here on of the frames that are open now, and of the next one."""
        self.session_unsure = True
        self.unsure |= self.really.keys() - self.folds.told.ends.keys()
        self.unsure |= {self.turn, *self._agents, f"{self.turn[: -len(str(self._turns))]}{self._turns + 1}"}

    async def _tick(self) -> None:
        if self._spool is None:
            await self.rig.tick()
        else:
            self.rig.clock.seconds += 2

    async def _observe(self) -> None:
        if self._spool is None:
            await self.rig.supervisor.poll_early()
