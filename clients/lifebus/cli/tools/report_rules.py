"""Sums over receipts, by harness and project: what happened in a span of time.  Pure.

Receipts come in the order of the ledger.  What is kept grows with the number of sessions and not with that of receipts.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from lifebus import LifecycleEvent, Receipt, ReceiptStatus
from lifebus.cli.tools.receipt_facts import (
    UNKNOWN_PROJECT,
    Key,
    event_key,
    failed,
    folder_of,
    is_nested,
    number_fact,
    repeats_event,
    session_of,
    text_fact,
)

_REMEMBERED_FRAMES: Final = 64
"""How many of its newest frames a session remembers, as the broker's own count does."""

MAX_STEPS: Final = 24
"""Into how many steps a span is cut at most."""

_FRAMES: Final = frozenset(
    {LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED, LifecycleEvent.FRAME_ENDING, LifecycleEvent.FRAME_ENDED}
)
_PLACED: Final = frozenset({ReceiptStatus.DELIVERED, ReceiptStatus.DEGRADED})
_NOT_SHOWN: Final = "receipt_only"
_IDLE: Final = "idle"


class Span(Struct, frozen=True, kw_only=True):
    """A span of time in milliseconds since 1970, both ends in it."""

    since_ms: int
    until_ms: int

    @property
    def step_ms(self) -> int:
        """How long a step of it is: the span has at most `MAX_STEPS`."""
        return (self.until_ms - self.since_ms) // MAX_STEPS + 1

    def step_of(self, at_ms: int) -> int:
        """Return the number of the step in which a time is, from 0."""
        # Receipts have whole seconds: the first of a span may seem to be older.
        return max(0, at_ms - self.since_ms) // self.step_ms


class ReportRow(Struct, frozen=True, kw_only=True):
    """What happened in the sessions of one harness in one project.

    `waited_ms` is how long sessions waited for a permission or an answer, `idle_ms` for the next prompt, each session
    by itself.  `peak_used_pct` and `last_used_pct` are the highest and the newest measurement of a context.
    `injected` counts payloads that reached their place, `taken_back` those of which that turned out false.
    """

    adapter_id: str
    project: str
    sessions: int = 0
    turns: int = 0
    subagents: int = 0
    waited_ms: int = 0
    idle_ms: int = 0
    compactions: int = 0
    failures: int = 0
    peak_used_pct: int | None = None
    last_used_pct: int | None = None
    injected: int = 0
    taken_back: int = 0


class ReportStep(Struct, frozen=True, kw_only=True):
    """What happened of one harness in one project in a step of the span, which begins at `begins_ms`.

    All steps have the same length.  `peak_used_pct` is the highest measurement of a context in it.
    """

    adapter_id: str
    project: str
    begins_ms: int
    turns: int = 0
    compactions: int = 0
    failures: int = 0
    peak_used_pct: int | None = None


class ActivityReport(Struct, frozen=True, kw_only=True):
    """What `lifebus report --json` prints (docs/json/report.json).

    `missing` counts receipts that are older than what the ledger keeps, or lost: the sums are too small by them.
    `steps` has the same counts step by step, each `step_ms` long; steps in which nothing happened are left out.
    """

    since_ms: int
    until_ms: int
    receipts: int
    missing: int
    rows: tuple[ReportRow, ...]
    total: ReportRow
    step_ms: int
    steps: tuple[ReportStep, ...]

    def of_project(self, pattern: str) -> "ActivityReport":
        """Return what it says of the projects whose names match a pattern."""
        rows = tuple(row for row in self.rows if fnmatchcase(row.project, pattern))
        steps = tuple(step for step in self.steps if fnmatchcase(step.project, pattern))
        return replace(self, rows=rows, steps=steps, total=total_of(rows))


class StepSums(Struct, kw_only=True):
    """What happened in one session in one step so far."""

    turns: int = 0
    compactions: int = 0
    failures: int = 0
    peak_used_pct: int | None = None

    def add(self, other: "StepSums") -> None:
        """Add what happened in another session, or in another step."""
        self.turns += other.turns
        self.compactions += other.compactions
        self.failures += other.failures
        peaks = [peak for peak in (self.peak_used_pct, other.peak_used_pct) if peak is not None]
        self.peak_used_pct = max(peaks, default=None)

    def is_empty(self) -> bool:
        """Whether nothing that counts has happened."""
        return self == StepSums()


class WaitClock(Struct, kw_only=True):
    """How long a session waited: time in which it waited for several things counts once."""

    open: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    since_ms: int = 0
    until_ms: int = 0
    total_ms: int = 0

    def begin(self, key: tuple[str, int], at_ms: int) -> None:
        """Note that a wait begins."""
        if not self.open:
            self.since_ms = max(at_ms, self.until_ms)
        self.open.setdefault(key, at_ms)

    def end(self, key: tuple[str, int], at_ms: int, began_ms: int) -> None:
        """Note that a wait ends; one that is not known began before the span, and so before everything that is."""
        if key not in self.open:
            self.since_ms, self.until_ms, self.total_ms = began_ms, began_ms, 0
        self.open.pop(key, None)
        if not self.open:
            self._stop(at_ms)

    def end_all(self, at_ms: int) -> None:
        """Note that nothing is waited for any more."""
        if self.open:
            self.open.clear()
            self._stop(at_ms)

    def _stop(self, at_ms: int) -> None:
        self.total_ms += max(0, at_ms - self.since_ms)
        self.until_ms = max(self.until_ms, at_ms)


class SessionSums(Struct, kw_only=True):
    """What happened in one session so far."""

    project: str = UNKNOWN_PROJECT
    steps: dict[int, StepSums] = field(default_factory=dict[int, StepSums])
    subagents: int = 0
    last_used_pct: int | None = None
    measured_at: int = 0  # the number of the receipt that measured last
    injected: int = 0
    taken_back: int = 0
    asked: WaitClock = field(default_factory=WaitClock)
    idle: WaitClock = field(default_factory=WaitClock)
    frames: deque[str] = field(default_factory=lambda: deque[str](maxlen=_REMEMBERED_FRAMES))
    compacted: tuple[str, str] | None = None
    failed: tuple[str, str] | None = None


class Sums:
    """The sums of a span; `receipts` counts what was added."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.receipts = 0
        self._sessions: dict[Key, SessionSums] = {}

    def add(self, receipt: Receipt) -> None:
        """Add the next receipt; one that is not of the span, or of no session, changes nothing."""
        key = session_of(receipt)
        if key is None or not self.span.since_ms // 1000 <= receipt.at_epoch_s <= self.span.until_ms // 1000:
            return
        self.receipts += 1
        sums = self._sessions.get(key)
        if sums is None:
            sums = self._sessions[key] = SessionSums()
        cwd = text_fact(receipt, "cwd")
        if cwd is not None:
            sums.project = folder_of(cwd)
        _add_payloads(sums, receipt)
        step = sums.steps.setdefault(self.span.step_of(receipt.at_epoch_s * 1000), StepSums())
        if failed(receipt) and sums.failed != event_key(receipt):
            step.failures += 1
            sums.failed = event_key(receipt)
        if not repeats_event(receipt):
            self._add_event(sums, step, receipt)

    def note_wait(self, key: Key, waiting_for: str, since_ms: int) -> None:
        """Note a wait that began before the span and has not ended yet."""
        sums = self._sessions.setdefault(key, SessionSums())
        _clock(sums, waiting_for).begin((waiting_for, since_ms), self._bounded(since_ms))

    def rows(self, projects: Mapping[Key, str]) -> list[ReportRow]:
        """Return a row for each harness and project, sorted; `projects` has those that no receipt of the span says."""
        for sums in self._sessions.values():
            sums.asked.end_all(self.span.until_ms)
            sums.idle.end_all(self.span.until_ms)
        groups = self._groups(projects)
        return [_row(adapter, project, groups[adapter, project]) for adapter, project in sorted(groups)]

    def steps(self, projects: Mapping[Key, str]) -> list[ReportStep]:
        """Return what happened step by step, by harness and project, sorted; steps without anything are left out."""
        found: list[ReportStep] = []
        for (adapter, project), group in sorted(self._groups(projects).items()):
            steps: dict[int, StepSums] = {}
            for number, step in (item for sums in group for item in sums.steps.items()):
                steps.setdefault(number, StepSums()).add(step)
            found += [
                ReportStep(
                    adapter_id=adapter,
                    project=project,
                    begins_ms=self.span.since_ms + number * self.span.step_ms,
                    **asdict(step),
                )
                for number, step in sorted(steps.items())
                if not step.is_empty()
            ]
        return found

    def _groups(self, projects: Mapping[Key, str]) -> dict[Key, list[SessionSums]]:
        groups: dict[Key, list[SessionSums]] = {}
        for key, sums in self._sessions.items():
            project = sums.project if sums.project != UNKNOWN_PROJECT else projects.get(key, UNKNOWN_PROJECT)
            groups.setdefault((key[0], project), []).append(sums)
        return groups

    def _add_event(self, sums: SessionSums, step: StepSums, receipt: Receipt) -> None:
        event = receipt.event
        if event in _FRAMES:
            _add_frame(sums, step, receipt)
        elif event is LifecycleEvent.CONTEXT_COMPACTED:
            # Every client that is asked about it gets a receipt of its own.
            if sums.compacted != event_key(receipt):
                step.compactions += 1
                sums.compacted = event_key(receipt)
        elif event is LifecycleEvent.CONTEXT_PRESSURE_OBSERVED:
            self._add_pressure(sums, step, receipt)
        elif event is LifecycleEvent.SESSION_ENDED:
            for clock in (sums.asked, sums.idle):
                clock.end_all(self._bounded(receipt.at_epoch_s * 1000))
        waiting_for = text_fact(receipt, "waiting_for")
        if waiting_for is not None:
            self._add_wait(sums, receipt, waiting_for)

    def _add_wait(self, sums: SessionSums, receipt: Receipt, waiting_for: str) -> None:
        at_ms = receipt.at_epoch_s * 1000
        since_ms = number_fact(receipt, "waiting_since_ms")
        since_ms = at_ms if since_ms is None else since_ms
        clock, key = _clock(sums, waiting_for), (waiting_for, since_ms)
        if receipt.telemetry_summary.get("waiting") == "begun":
            clock.begin(key, self._bounded(since_ms))
        else:
            waited_ms = number_fact(receipt, "waited_ms")
            ended_ms = at_ms if waited_ms is None else since_ms + waited_ms
            clock.end(key, self._bounded(ended_ms), self._bounded(since_ms))

    def _add_pressure(self, sums: SessionSums, step: StepSums, receipt: Receipt) -> None:
        used = number_fact(receipt, "context_used_pct")
        if used is not None:
            sums.last_used_pct, sums.measured_at = used, self.receipts
            step.peak_used_pct = max(used, step.peak_used_pct or 0)

    def _bounded(self, at_ms: int) -> int:
        return min(max(at_ms, self.span.since_ms), self.span.until_ms)


def total_of(rows: Iterable[ReportRow]) -> ReportRow:
    """Return the sum of rows; of pressure the highest, and nothing of the newest, which is one session's."""
    rows = list(rows)
    peaks = [row.peak_used_pct for row in rows if row.peak_used_pct is not None]
    counts = {name: sum(getattr(row, name) for row in rows) for name in _COUNTS}
    return ReportRow(adapter_id="", project="", peak_used_pct=max(peaks, default=None), **counts)


_COUNTS: Final = (
    "sessions",
    "turns",
    "subagents",
    "waited_ms",
    "idle_ms",
    "compactions",
    "failures",
    "injected",
    "taken_back",
)


def _row(adapter: str, project: str, group: list[SessionSums]) -> ReportRow:
    measured = [sums for sums in group if sums.last_used_pct is not None]
    whole = StepSums()
    for step in (step for sums in group for step in sums.steps.values()):
        whole.add(step)
    newest = max(measured, key=lambda sums: sums.measured_at, default=None)
    return ReportRow(
        adapter_id=adapter,
        project=project,
        sessions=len(group),
        turns=whole.turns,
        subagents=sum(sums.subagents for sums in group),
        waited_ms=sum(sums.asked.total_ms for sums in group),
        idle_ms=sum(sums.idle.total_ms for sums in group),
        compactions=whole.compactions,
        failures=whole.failures,
        peak_used_pct=whole.peak_used_pct,
        last_used_pct=None if newest is None else newest.last_used_pct,
        injected=sum(sums.injected for sums in group),
        taken_back=sum(sums.taken_back for sums in group),
    )


def _add_frame(sums: SessionSums, step: StepSums, receipt: Receipt) -> None:
    frame = text_fact(receipt, "frame_id")
    if frame is None or frame in sums.frames:
        return
    sums.frames.append(frame)
    if is_nested(receipt):
        sums.subagents += 1
    else:
        step.turns += 1


def _add_payloads(sums: SessionSums, receipt: Receipt) -> None:
    is_correction = "corrects" in receipt.telemetry_summary
    for payload in receipt.payload_receipts:
        # Recorded only: the model never sees it.
        if payload.placement is None or payload.placement.value == _NOT_SHOWN:
            continue
        if is_correction:
            sums.taken_back += 1
        elif payload.status in _PLACED:
            sums.injected += 1


def _clock(sums: SessionSums, waiting_for: str) -> WaitClock:
    return sums.idle if waiting_for == _IDLE else sums.asked
