"""One supervised session: what the ledger says of it, and what was seen since.

The ledger's state outlives the process.  Everything else is evidence that has not become a receipt yet, and is gathered
again after a restart.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from lifebus_adapters.adapter import CallerProcess
from lifebus_adapters.app_server.facts import ThreadClosed, ThreadOpened
from lifebus_adapters.shared.telemetry import Compacted, Fact, ToolsDone, TurnEnded, TurnStarted, Whereabouts
from lifebus_broker.state.receipt_view import ReceiptLike
from lifebus_broker.state.session_reducer import apply_receipt, is_app
from lifebus_broker.state.session_state import SessionState
from lifebus_broker.state.telemetry_keys import FRAME, WAITING, is_applied_before
from lifebus_broker.state.waiting import Waits
from lifebus_contract import LifecycleEvent
from lifebus_supervisor.supervision.monitor import compactions, hooks, process, telemetry, turns
from lifebus_supervisor.supervision.monitor.compactions import CompactionState
from lifebus_supervisor.supervision.monitor.deferred import DeferredFact
from lifebus_supervisor.supervision.monitor.ending import AnnouncedSessionEnd
from lifebus_supervisor.supervision.monitor.hooks import HookState
from lifebus_supervisor.supervision.monitor.process import ProcessState
from lifebus_supervisor.supervision.monitor.telemetry import TelemetryState
from lifebus_supervisor.supervision.monitor.turns import TurnState
from lifebus_supervisor.supervision.monitor.waits import Underway, arrived, handed_over, with_under_way
from lifebus_supervisor.supervision.monitor.whereabouts import on_whereabouts

SessionKey = tuple[str, str]
"""(adapter_id, harness_session_id)."""

_CLOSING_S: Final = 5.0
"""How long an end may be on its way to the ledger, in seconds: one that did not arrive is found again."""

_FRAME_OPENS: Final = frozenset({LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED})
_BEGINS: Final = _FRAME_OPENS | {LifecycleEvent.SESSION_STARTING, LifecycleEvent.SESSION_STARTED}


class SessionMonitor(Struct, kw_only=True):
    """One session.  Times are monotonic seconds; ticks are numbers of the tick loop."""

    # What the ledger says of the session up to `position`; changed by `apply` alone.
    state: SessionState
    # The ledger's position up to which `state` holds.
    position: int = 0
    # The position of the session's newest row, as far as commits have shown.
    newest: int = 0
    # Whether `state` holds all that the ledger knew at `loaded_at`.
    loaded: bool = False
    loaded_at: float = 0.0
    process: ProcessState = field(default_factory=ProcessState)
    telemetry: TelemetryState = field(default_factory=TelemetryState)
    compactions: CompactionState = field(default_factory=CompactionState)
    turns: TurnState = field(default_factory=TurnState)
    hooks: HookState = field(default_factory=HookState)
    # The end of the session that a hook announced and that is not recorded yet.
    ending: AnnouncedSessionEnd | None = None
    # Until when an end of the session is on its way to the ledger; monotonic seconds.
    closing_until: float = 0.0
    # Facts of an app-server that wait for the hooks that report the same, oldest first.
    deferred: tuple[DeferredFact, ...] = ()
    # When the session's file last showed that every tool had given its result, in milliseconds since 1970.
    tools_done_ms: int | None = None
    # Where the session's files say that it works, and what it is called.
    place: Whereabouts | None = None
    # Beginnings and ends of waits that are handed to the ledger and not on record yet.
    waits_under_way: Underway = ()
    # Consecutive ticks without news, after which a session that is over is forgotten.
    idle_ticks: int = 0
    # How often in a row recording findings changed nothing, because they were refused or known.
    futile_attempts: int = 0
    # No findings are recorded before this time, in monotonic seconds.
    paused_until: float = 0.0

    @property
    def key(self) -> SessionKey:
        """Adapter and session."""
        return self.state.adapter_id, self.state.harness_session_id

    @property
    def is_hooked(self) -> bool:
        """Whether hooks have reported on the session, in this process or one before."""
        return self.state.hooked or self.hooks.last_hook_at is not None

    @property
    def is_live(self) -> bool:
        """Whether the session is under way: it has begun and not ended, and more is known of it than old records."""
        return not self.telemetry.only_history and not self.state.ended and self.has_begun

    @property
    def has_begun(self) -> bool:
        """Whether anybody has seen the session begin or at work; a lone hook of another kind shows neither."""
        state = self.state
        is_on_record = bool(state.starts) or state.measured or state.app or not _BEGINS.isdisjoint(state.by_event)
        return is_on_record or self.telemetry.has_reported or bool(self.deferred)

    @property
    def is_unreported(self) -> bool:
        """Whether the session is known by its telemetry alone: no hook, app or app-server ever reported on it."""
        reported = self.is_hooked or self.hooks.reported_at is not None or self.state.app or bool(self.state.wired)
        return not reported and self.process.harness is None

    @property
    def held_back(self) -> tuple[DeferredFact, ...]:
        """The deferred facts that no hook has reported so far."""
        return tuple(one for one in self.deferred if not self._is_reported(one))

    @property
    def holds_back(self) -> bool:
        """Whether a deferred fact has to be recorded before the session's end."""
        return any(not isinstance(one.fact, ThreadClosed) for one in self.held_back)

    def _is_reported(self, deferred: DeferredFact) -> bool:
        """Whether a hook reported what was deferred, or nobody ever will."""
        state = self.state
        match deferred.fact:
            case ThreadOpened():
                return state.started
            case ThreadClosed():
                return state.ended or state.starts > deferred.starts
            case TurnStarted() as turn:
                return turn.frame_id in state.turns or (turn.compacting and self.is_hooked)
            case TurnEnded() as turn:  # the monitor closes a frame that a hook opened
                return turn.frame_id in state.turns

    @property
    def waits(self) -> Waits:
        """What the session waits for, by what is on record and by what is on its way there."""
        return with_under_way(self.state.waits, self.waits_under_way)

    @property
    def is_on_record(self) -> bool:
        """Whether the ledger holds a receipt of the session."""
        return self.state.last_event is not None

    @property
    def had_a_turn(self) -> bool:
        """Whether a turn began and is over."""
        return bool(set(self.state.turns) - {frame.frame_id for frame in self.state.frames})

    @property
    def unrecorded_compactions(self) -> int:
        """How many compactions are proved that are not recorded; below 0 where hooks were faster."""
        return self.compactions.unrecorded(self.state.compactions)

    def begin(self, position: int, state: SessionState | None) -> None:
        """Begin with what was reduced already up to a position."""
        self.position = position
        self.newest = max(self.newest, position)
        if state is not None:
            self.state = state
            if state.app and not self.is_hooked:
                self.hooks = hooks.on_app(self.hooks, hooked=False, now=None)
            else:
                self.hooks = hooks.on_hooked_session(self.hooks)

    def apply(self, position: int, receipt: ReceiptLike) -> None:
        """Take one more receipt of the ledger."""
        proved, recorded = self.unrecorded_compactions, self.state.compactions
        apply_receipt(self.state, position, receipt)
        if self.waits_under_way:
            self.waits_under_way = arrived(self.waits_under_way, receipt.telemetry_summary)
        self.position = position
        # A compaction that no source has shown yet: whatever was measured, was measured before it.
        if self.loaded and self.state.compactions > recorded and proved <= 0:
            self.telemetry = telemetry.on_rewritten(self.telemetry)
        if is_applied_before(receipt.telemetry_summary):
            return
        frame = receipt.telemetry_summary.get(FRAME)
        if isinstance(frame, str) and receipt.event in _FRAME_OPENS:
            if is_app(receipt):
                self.turns = turns.on_opened_by_client(self.turns, frame)
            else:
                parent = next((one.parent for one in self.state.frames if one.frame_id == frame), None)
                self.turns = turns.on_opened(self.turns, frame, parent)
        if receipt.event is LifecycleEvent.SESSION_ENDED:
            self.closing_until = 0.0
        if not self.state.ended:
            self.turns = turns.on_session_started(self.turns)
        # An end that is read as history may be followed by a resume, whose processes are known already.
        if receipt.event is LifecycleEvent.SESSION_ENDED and self.loaded:
            self.process = process.on_session_ended(self.process)
            self.turns = turns.on_session_ended(self.turns)
            self.hooks = hooks.on_session_ended(self.hooks)
            # What was deferred is of the life that is over: behind its end it would be taken for another one.
            self.deferred = ()

    def load(self, now: float, epoch_s: float) -> None:
        """Take that the state holds all that the ledger knows; `epoch_s` is the wall-clock time."""
        self.loaded, self.loaded_at = True, now
        state = self.state
        self.compactions = compactions.on_loaded(
            self.compactions,
            recorded=state.compactions,
            recent=sum(epoch_s - at <= compactions.MATCH_S for at in state.compacted_at),
            before=state.before,
            is_new=state.last_event is None,
        )

    def has_end_under_way(self, now: float) -> bool:
        """Whether an end of the session has been handed to the ledger and is not on record yet."""
        return now < self.closing_until

    def mark_closing(self, now: float) -> None:
        """Take that an end of the session is handed to the ledger: hooks and passes must not hand over another one."""
        self.closing_until = now + _CLOSING_S

    def hand_over_waits(self, told: Sequence[Mapping[str, Any]], now: float) -> None:
        """Take what is handed to the ledger: hooks and passes must not end a wait that another one has ended."""
        if self.waits_under_way or any(WAITING in facts for facts in told):
            self.waits_under_way = handed_over(self.waits_under_way, told, now)

    def match_ending(self, now: float) -> None:
        """Bring the announced end in line with the ledger: another broker may have taken it, or life went on since."""
        if self.state.announced_end is None:
            self.ending = None
        elif self.ending is None:
            self.ending = AnnouncedSessionEnd(facts={}, source="supervisor", at=now)

    def hook_seen(self, hook: str, now: float) -> None:
        """Take a hook: nothing is silent, and what telemetry showed before is covered."""
        self.telemetry = telemetry.on_life(self.telemetry)
        self.hooks = hooks.on_hook(self.hooks, hook, now)
        self.turns = turns.on_hook(self.turns)
        self.process = process.on_hook(self.process)

    def called_by(self, caller: CallerProcess | None, call_id: str, *, by_harness: bool) -> None:
        """Take the process that called a hook; the session goes on, whatever was announced or found before."""
        called = process.on_call(self.process, caller, call_id, is_over=self.state.ended, by_harness=by_harness)
        self.process = process.on_exit_announced(called, None)
        self.hooks = hooks.on_hooked_session(self.hooks)
        self.mark_active()

    def app_server_seen(self, server: CallerProcess | None, now: float) -> None:
        """Take that an app-server reports on the session; its process is the harness."""
        self.process = process.on_identified(self.process, server)
        self.hooks = hooks.on_hooked_session(hooks.on_report(self.hooks, now))
        self.mark_active()

    def mark_active(self) -> None:
        """Take that somebody reports on the session now: more than a file's history is known."""
        self.telemetry = telemetry.with_history_only(self.telemetry, False)
        self.idle_ticks = 0

    def observe(self, fact: Fact, source: str, tick: int, *, settled: bool, history: bool) -> None:
        """Take one fact of the telemetry; `source` is the kind of file it stood in.

        `settled` says that the last hook is long enough ago for the file to have caught up with it; `history` that the
        fact stood in the file before anybody read it, so that it proves nothing about now.
        """
        state = self.state
        if isinstance(fact, ToolsDone):
            self.tools_done_ms = max(fact.at_ms, self.tools_done_ms or 0)
        if isinstance(fact, Whereabouts):
            self.place = on_whereabouts(self.place, fact)
        self.telemetry = telemetry.on_fact(self.telemetry, fact, tick, source)
        if isinstance(fact, Compacted):
            is_old = history and (self.telemetry.only_history or self.compactions.new_to_ledger)
            before = self.telemetry.usage
            after = compactions.on_proof(self.compactions, fact, source, is_old=is_old, before=before)
            self._take_proof(after, source)
        if isinstance(fact, TurnStarted) and state.ended and not history and self._is_another_turn(fact):
            self.turns = turns.on_turn_after_end(self.turns, source, tick)
        self.turns = turns.on_fact(self.turns, fact, source, tick, state.frames, state.turns, history=history)
        self.hooks = hooks.on_fact(
            self.hooks,
            fact,
            tick,
            in_frame=bool(state.frames),
            in_turn=self.turns.newest in state.turns,
            settled=settled,
            history=history,
        )

    def observe_app_server_compaction(self, fact: Compacted, source: str) -> None:
        """Take a compaction that an app-server reported."""
        before = self.telemetry.usage
        self._take_proof(compactions.on_app_server_proof(self.compactions, fact, source, before), source)

    def _take_proof(self, after: CompactionState, source: str) -> None:
        """Take the state with one more proof; usages from before the compaction do not count any more."""
        if after is self.compactions:
            return
        recorded = self.state.compactions
        # One that is known already, by a hook or another source, puts an end to what its own source measured before.
        is_news = after.unrecorded(recorded) > max(0, self.compactions.unrecorded(recorded))
        self.compactions = after
        self.telemetry = telemetry.on_rewritten(self.telemetry, None if is_news else source)

    def _is_another_turn(self, turn: TurnStarted) -> bool:
        """Whether a turn cannot be one from before the session's end: its last lines may come late."""
        if turn.compacting:
            return False
        return self.is_unreported if turn.frame_id is None else turn.frame_id not in self.state.turns

    def check_process(self, is_alive: Callable[[CallerProcess], bool], *, settled: bool) -> bool | None:
        """Check the processes, once a tick; return whether one lives, None where that is unknown.

        `settled` says that the last hook is long enough ago for a helper that called it to be gone.
        """
        if settled and self.process.candidate is not None:
            self.process = process.settle_candidate(self.process, is_alive(self.process.candidate))
        living = frozenset(one for one in self.process.known if is_alive(one))
        self.process, alive = process.with_alive(self.process, living)
        if self.is_live and self.loaded:
            self.process = process.on_liveness(self.process, alive)
        return alive

    def prepare_evaluation(self, tick: int, *, awaits_hook: bool) -> None:
        """Bring the evidence up to date with the ledger; `awaits_hook` says that a hook reports compactions too."""
        recorded = self.state.compactions
        self.compactions = compactions.on_evaluation(
            self.compactions, recorded=recorded, tick=tick, awaits_hook=awaits_hook
        )
        if not self.state.ended:  # late evidence of how a frame ended is still needed after the session's end
            self.turns = turns.on_evaluation(self.turns, self.state.frames, self.state.turns)
