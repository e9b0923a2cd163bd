"""What a run has used of its budget, and what it may use: a part of its state.  Pure."""

from typing import Final

from msgspec import Struct, structs

from lifebus_contract.flows import Budget, OutcomeKind
from lifebus_contract.questions import AnswerAction
from lifebus_contract.runs import CostRecord
from lifebus_supervisor.runtime.limits.budget import BudgetUse, Grant, granted_again, granted_anew
from lifebus_supervisor.runtime.limits.costs import CostBook
from lifebus_supervisor.runtime.run_records import Answered, ContextUse, TryEnded

REPORT: Final = "report:"
"""What the keys of sums begin with that a harness says of a whole prompt: they say nothing of one context."""

TELEMETRY: Final = "telemetry: "
"""What the sources of numbers begin with that telemetry has shown."""

CALLS: Final = "calls: the newest one of this try"
"""The source of a number that the newest call has shown."""


class RunLimits(Struct, frozen=True, kw_only=True):
    """What is used and granted.

    `active_ms` is the time in which at least one try ran, up to `active_since_ms`, since when `active` of them run.
    `near` are the parts of the budget that are nearly used up, `asked_about` those of the open question.
    """

    grant: Grant = Grant(limits=Budget())
    costs: CostBook = CostBook()
    active: int = 0
    active_ms: int = 0
    active_since_ms: int = 0
    near: tuple[str, ...] = ()
    asked_about: tuple[str, ...] = ()

    def use(self, now_ms: int) -> BudgetUse:
        """Return what is used of the budget."""
        # The clock may have been set back.
        running = max(0, now_ms - self.active_since_ms) if self.active else 0
        total = self.costs.total
        return BudgetUse(time_ms=self.active_ms + running, tokens=total.tokens, cost_micros=total.cost_micros)

    def passed_to(self, at_ms: int) -> "RunLimits":
        """Return the limits at a record: what is used by then stays so, also where a clock is set back."""
        if not self.active:
            return self
        return structs.replace(self, active_ms=self.use(at_ms).time_ms, active_since_ms=at_ms)

    def try_started(self, at_ms: int) -> "RunLimits":
        """Return the limits after the beginning of a try."""
        since = self.active_since_ms if self.active else at_ms
        return structs.replace(self, active=self.active + 1, active_since_ms=since)

    def try_ended(self, record: TryEnded, changed_at_ms: int) -> "RunLimits":
        """Return the limits after the end of a try; `changed_at_ms` is the time of the record before it."""
        # Nobody saw an interrupted try end, perhaps hours ago: it counts up to the record before.
        until = changed_at_ms if record.outcome.kind is OutcomeKind.INTERRUPTED else record.at_ms
        passed = self.active_ms + max(0, until - self.active_since_ms)
        return structs.replace(self, active=self.active - 1, active_ms=passed, active_since_ms=record.at_ms)

    def counted(self, cost: CostRecord) -> "RunLimits":
        """Return the limits after calls to a model."""
        return structs.replace(self, costs=self.costs.counted(cost))

    def answered(self, record: Answered) -> "RunLimits":
        """Return the limits after the answer to a question about the budget."""
        grant = self.grant
        if record.action is AnswerAction.PROCEED:
            grant = granted_again(grant, self.use(record.at_ms), self.asked_about)
        elif record.action is AnswerAction.MODIFY:
            grant = granted_anew(grant, record.modifications)
        return structs.replace(self, grant=grant, asked_about=())


def context_after(context: ContextUse, cost: CostRecord) -> ContextUse:
    """Return how full a context is after calls to a model: what a single call has sent and got is what it holds.

    Where telemetry is on record it stays: a call is kept beside it, or the two would cross a limit by turns.
    """
    if cost.calls != 1 or (cost.key or "").startswith(REPORT):
        return context
    used = cost.input_tokens + cost.output_tokens
    if context.used_source.startswith(TELEMETRY):
        return structs.replace(context, call=used)
    return structs.replace(context, used=used, used_source=CALLS)


def context_shown(context: ContextUse, shown: ContextUse) -> ContextUse:
    """Return how full a context is once telemetry shows something: a call that it does not contradict stays.

    Telemetry that shows less than before has seen a compaction, which no call before it knows of.
    """
    is_smaller = (shown.used or 0) < (context.used or 0)
    return structs.replace(shown, call=0 if is_smaller else context.call)


def fullest(context: ContextUse) -> ContextUse:
    """Return how full a context is by the fuller one of telemetry and the newest call that came behind it."""
    if context.call <= (context.used or 0):
        return context
    return structs.replace(context, used=context.call, used_source=CALLS)
