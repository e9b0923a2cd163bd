"""What is known of one supervised session: the fold over its receipts, and what was seen since.

The fold is the truth that outlives the process; everything else here is evidence that has not become a receipt yet,
and is gathered again after a restart.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from lifebus_adapters.adapter import CallerProcess
from lifebus_adapters.shared.telemetry import Activity, Compacted, Fact, TurnEnded, TurnStarted, Usage, WindowKnown
from lifebus_broker.state.receipt_view import ReceiptLike
from lifebus_broker.state.session_reducer import apply_receipt
from lifebus_broker.state.session_state import SessionState
from lifebus_broker.state.telemetry_keys import FRAME
from lifebus_contract import LifecycleEvent
from lifebus_supervisor.supervision.wire import SOURCE as WIRE
from lifebus_supervisor.supervision.wire import Wire

Key = tuple[str, str]
"""(adapter_id, harness_session_id)."""

MATCH_S: Final = 120
"""How long a hook and a file may be apart that tell of the same compaction, in seconds."""

_BESIDE: Final = 3


class Proof(Struct, frozen=True):
    """A compaction that a file proves, and which kind of file."""

    fact: Compacted
    source: str


class EndSeen(Struct, frozen=True):
    """A turn's end that a file shows: which kind of file, and in which tick it was seen."""

    fact: TurnEnded
    source: str
    tick: int


@dataclass(slots=True, kw_only=True)
class SessionMonitor:
    """One session.  Times are monotonic seconds; ticks are numbers of the tick loop.

    `state` holds what the ledger knows up to `position`, all of it once `loaded` (at `loaded_at`); `newest` is the
    position of the session's newest row.  `hook_at` is when the last hook came, None where none did in this process;
    `heard_at` when anybody was heard, `grown_at` when a file grew.  An `app` reports by itself, without hooks.

    `usage` holds the newest numbers, `usage_tick` when the first came; `window` is what the harness told of itself,
    `seen_window` the last that came with numbers.  `files` holds the files that told of the session, the one last heard
    of last, and how many unreadable records stand at each one's end.

    `process` is the harness's, `beside` are others that tell of the same session, `left_by` is the one that ended it
    and may well live on; `candidate` called last, and may be a mere helper; `disposed` says how the process told that
    it ends with all its sessions.  `dead_ticks` counts the ticks since the harness's process is gone.

    `base` counts the compactions that the ledger knew when the watch was loaded; recent ones, which may not be in the
    file yet, are left out.  A `fresh` session was not known to it.  `before` counts the proofs from before anybody
    watched, and `credit`, never above 0, the compactions that the file does not hold.

    `work_tick` is the tick in which telemetry first showed work that no hook told of, `work_ticks` all of those;
    `started` and `ended` are the turns that only telemetry tells of so far, and `file_turn` is the newest one there.

    `wire` is the line to an app-server, where one tells of the session.

    `idle_ticks` counts the ticks without news, `vain` the times in a row that findings came to nothing: none is
    recorded before the tick `rest_until`.  A `quiet` session is one whose file alone is known, as it was when first
    seen: nothing is recorded of it.
    """

    state: SessionState
    position: int = 0
    newest: int = 0
    loaded: bool = False
    loaded_at: float = 0.0
    process: CallerProcess | None = None
    beside: tuple[CallerProcess, ...] = ()
    left_by: CallerProcess | None = None
    candidate: CallerProcess | None = None
    disposed: str | None = None
    dead_ticks: int = 0
    idle_ticks: int = 0
    vain: int = 0
    rest_until: int = 0
    quiet: bool = False
    hook_at: float | None = None
    hook: str = ""
    grown_at: float | None = None
    heard_at: float | None = None
    app: bool = False
    usage: Usage | None = None
    usage_tick: int | None = None
    window: tuple[int, str] | None = None
    seen_window: tuple[int, str | None] | None = None
    proofs: dict[str, "Proof"] = field(default_factory=dict[str, "Proof"])
    fresh: bool = False
    base: int = 0
    before: int = 0
    credit: int = 0
    proof_tick: int | None = None
    started: dict[str, int] = field(default_factory=dict[str, int])
    ended: dict[str, "EndSeen"] = field(default_factory=dict[str, "EndSeen"])
    file_turn: str | None = None
    wire: Wire | None = None
    work_tick: int | None = None
    work_ticks: set[int] = field(default_factory=set[int])
    missing: int = 0
    hung: int = 0
    problem: str = ""
    files: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def key(self) -> Key:
        """Adapter and session."""
        return self.state.adapter_id, self.state.harness_session_id

    @property
    def hooked(self) -> bool:
        """Whether hooks have told of the session, in this process or one before."""
        return self.state.hooked or self.hook_at is not None

    @property
    def is_live(self) -> bool:
        """Whether the session is under way, as far as anybody knows."""
        return not self.quiet and (not self.state.ended or bool(set(self._frame_ids) - set(self.state.left)))

    @property
    def _frame_ids(self) -> list[str]:
        return [frame.frame_id for frame in self.state.frames]

    @property
    def had_a_turn(self) -> bool:
        """Whether a turn began and is over."""
        return bool(set(self.state.turns) - set(self._frame_ids))

    @property
    def unreadable(self) -> int:
        """How many unreadable records stand in a row at the end of one of its files."""
        return max(self.files.values(), default=0)

    def begin(self, position: int, story: SessionState | None) -> None:
        """Begin with what was folded already up to a position."""
        self.position = position
        self.newest = max(self.newest, position)
        if story is not None:
            self.state = story
            self.app = story.app and not self.hooked

    def apply(self, position: int, told: ReceiptLike) -> None:
        """Take one more receipt, and what it tells about turns."""
        apply_receipt(self.state, position, told)
        self.position = position
        frame = told.telemetry_summary.get(FRAME)
        if isinstance(frame, str) and told.event in _FRAME_OPENS:
            self.started.pop(frame, None)
        if told.event is LifecycleEvent.SESSION_ENDED and self.loaded:  # who ended it long ago may be back
            self.beside, self.left_by = (), self.process

    def heard(self, hook: str, now: float) -> None:
        """Note that a hook came: nothing is silent, and what telemetry showed before is covered."""
        self.hook, self.hook_at, self.heard_at = hook, now, now
        self.dead_ticks = 0
        self.cover()

    def called_by(self, process: CallerProcess | None) -> None:
        """Note which process called the hook.

        It counts as the harness once it called twice, or has outlived its call: hooks may be run through helpers that
        are gone a moment later.
        """
        if process is None or process == self.process or process in self.beside:
            self.left_by = None if process == self.left_by else self.left_by
            return
        if process == self.candidate:
            self.confirm(alive=True)
        else:
            self.candidate = process

    def confirm(self, alive: bool) -> None:
        """Take the process that called last for the harness if it is still there, else forget it."""
        if alive and self.candidate is not None:
            if self.process is not None and self.process != self.left_by:
                self.beside = (*self.beside, self.process)[-_BESIDE:]
            self.process = self.candidate
        self.candidate = None

    def run_by(self, process: CallerProcess | None) -> None:
        """Note which process is known to be the harness."""
        self.called_by(process)
        if process is not None and process == self.candidate:
            self.confirm(alive=True)

    def is_alive(self, lives: Callable[[CallerProcess], bool]) -> bool | None:
        """Whether a process behind the session lives, None where nobody knows; the first that does stands for it.

        Who ended the session before it was resumed says nothing of it, nor does anybody while a newer caller is there.
        """
        if self.process is None:
            return None
        self.beside = tuple(process for process in self.beside if lives(process))
        if lives(self.process):
            return True
        if not self.beside:
            return None if self.process == self.left_by or self.candidate is not None else False
        self.process, self.beside = self.beside[-1], self.beside[:-1]
        return True

    def cover(self) -> None:
        """Forget the evidence that hooks are silent."""
        self.work_tick = None
        self.work_ticks.clear()
        self.started.clear()

    def take(self, fact: Fact, source: str, tick: int, *, settled: bool, history: bool) -> None:
        """Take one fact of the telemetry; `source` is the kind of file it stood in.

        `settled` says that the last hook is long enough ago for the file to have caught up with it; `history` that the
        fact stood in the file before anybody watched it, so that it proves nothing about now.
        """
        if isinstance(fact, TurnStarted):
            self.file_turn = fact.frame_id
        match fact:
            case Usage():
                self._use(fact, tick)
            case WindowKnown():
                self.window = (fact.window_tokens, fact.window_source)
            case Compacted():
                self._prove(Proof(fact, source), history=history)
            case TurnStarted() if not history and not fact.compacting:
                self._start(fact, tick, settled=settled)
            case TurnEnded() if not history or self._is_open(fact.frame_id):
                self._end(EndSeen(fact, source, tick))
            case Activity() if not history and settled and self._is_between_turns:
                self._work(tick)
            case _:
                return

    @property
    def _is_between_turns(self) -> bool:
        return not self.state.frames and self.file_turn not in self.state.turns

    @property
    def untold(self) -> int:
        """How many compactions are proved that are not recorded; below 0 where hooks were faster."""
        return self._untold_by_files if self.wire is None else max(self._untold_by_files, self._untold_by_wire)

    @property
    def _untold_by_files(self) -> int:
        return len(self.proofs) - self.state.compactions - self.before - self.credit

    @property
    def _untold_by_wire(self) -> int:
        return 0 if self.wire is None else self.wire.untold(self.state.compactions)

    def unrecorded(self) -> dict[str, Proof]:
        """Return the newest proofs of compactions, as many as are not recorded, from whoever proves most."""
        if self.wire is not None and self._untold_by_wire >= self._untold_by_files:
            proofs = {key: Proof(fact, WIRE) for key, fact in self.wire.proofs.items()}
        else:
            proofs = self.proofs
        return {key: proofs[key] for key in list(proofs)[-self.untold :]} if self.untold > 0 else {}

    def load(self, now: float, epoch_s: float) -> None:
        """Note that the state holds all that the ledger knows; `epoch_s` is the wall-clock time."""
        self.loaded, self.loaded_at = True, now
        self.fresh = self.state.last_event is None
        recent = sum(epoch_s - at <= MATCH_S for at in self.state.compacted_at)
        self.base, self.before = self.state.compactions - recent, max(self.before, self.state.before)
        self.settle_proofs()

    def settle_proofs(self) -> None:
        """Compare what a file held when it was first read with what is recorded already: it may hold less."""
        self.credit = min(0, len(self.proofs) - self.base - self.before)

    def _prove(self, proof: Proof, *, history: bool) -> None:
        """Take a proof; one that was there before anybody knew the session is no news."""
        if proof.fact.key not in self.proofs:
            self.proofs[proof.fact.key] = proof
            self.before += history and (self.quiet or self.fresh)

    def _use(self, usage: Usage, tick: int) -> None:
        """Take numbers; a window that was seen once holds until another one is."""
        self.usage = usage
        self.usage_tick = tick if self.usage_tick is None else self.usage_tick
        if usage.window_tokens:
            self.seen_window = (usage.window_tokens, usage.window_source)

    def _is_open(self, frame_id: str | None) -> bool:
        return frame_id in self._frame_ids

    def _start(self, fact: TurnStarted, tick: int, *, settled: bool) -> None:
        if fact.frame_id is not None and fact.frame_id not in self.state.turns:
            self.started.setdefault(fact.frame_id, tick)
        elif fact.frame_id is None and settled and not self.state.frames:
            self._work(tick)

    def _end(self, seen: EndSeen) -> None:
        """Note a turn's end; one that names no turn is that of the newest frame which stands alone."""
        alone = [frame.frame_id for frame in self.state.frames if frame.parent is None]
        frame_id = seen.fact.frame_id or (alone[-1] if alone else None)
        if frame_id is None:
            return
        self.started.pop(frame_id, None)
        known = self.ended.setdefault(frame_id, seen)
        if seen.fact.details and not known.fact.details:  # an app-server says more of an end than a file
            self.ended[frame_id] = EndSeen(seen.fact, seen.source, known.tick)

    def _work(self, tick: int) -> None:
        self.work_tick = tick if self.work_tick is None else self.work_tick
        self.work_ticks.add(tick)


_FRAME_OPENS: Final = frozenset({LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED})


def process_text(process: CallerProcess) -> str:
    """Return the form in which receipts name a process: ``<pid>@<start>``."""
    return f"{process.pid}@{process.started}"


def process_of(text: str | None) -> CallerProcess | None:
    """Return the process that a receipt names, None where it names none."""
    pid, at, started = (text or "").partition("@")
    if not at or not pid.isdigit():
        return None
    return CallerProcess(pid=int(pid), started=started)
