"""When people are reminded of a question, and the hours in which they are not.  Pure.

Quiet hours are local time.  Local time may stand still or jump, so that they are never computed by adding hours: every
moment is looked at by what the clocks show then.
"""

from datetime import datetime, timedelta, tzinfo
from typing import Final

from msgspec import Struct

from lifebus_contract.flows import RetryPause
from lifebus_supervisor.runtime.inbox.quiet_hours import QuietHours
from lifebus_supervisor.runtime.inbox.records import QuestionState
from lifebus_supervisor.runtime.rules.retry_pause import pause_ms

_MINUTE_MS: Final = 60_000


class ReminderPlan(Struct, frozen=True, kw_only=True):
    """The pause before the first reminder, which doubles up to the longest one; `zone` None is the machine's own."""

    first_ms: int
    longest_ms: int
    quiet: QuietHours | None = None
    zone: tzinfo | None = None


def reminder_due_ms(state: QuestionState, plan: ReminderPlan, since_ms: int | None = None) -> int | None:
    """Return when people are to be reminded next of a question, None where they are not.

    The pause counts from `since_ms`, by default from when they were asked or reminded before.
    """
    if not state.is_open or not plan.first_ms:
        return None
    pauses = RetryPause(first_ms=plan.first_ms, longest_ms=max(plan.longest_ms, plan.first_ms), jitter_percent=0)
    began_ms = state.occasion_at_ms if since_ms is None else since_ms
    return after_quiet_ms(began_ms + pause_ms(pauses, state.occasion, 0.0), plan.quiet, plan.zone)


def after_quiet_ms(at_ms: int, quiet: QuietHours | None, zone: tzinfo | None) -> int:
    """Return the first moment from `at_ms` on that lies outside of the quiet hours."""
    if quiet is None or not quiet.hold(at_ms, zone):
        return at_ms
    # Between the two bounds the clocks leave the quiet hours once; that moment is found by halving.
    inside, outside = at_ms, _outside_ms(at_ms, quiet, zone)
    while outside - inside > 1:
        middle = (inside + outside) // 2
        if quiet.hold(middle, zone):
            inside = middle
        else:
            outside = middle
    return outside


def _outside_ms(at_ms: int, quiet: QuietHours, zone: tzinfo | None) -> int:
    """Return a moment soon after the present quiet hours."""
    local = datetime.fromtimestamp(at_ms / 1000, zone)
    days = (0, 1) if quiet.start > quiet.until else (0,)
    for day in days:
        for fold in (0, 1):  # where clocks are set back, the end comes twice
            date = local.date() + timedelta(days=day)
            end = datetime.combine(date, quiet.until, tzinfo=zone).replace(fold=fold)
            end_ms = int(end.timestamp() * 1000)
            if end_ms > at_ms and not quiet.hold(end_ms, zone):
                return end_ms
    # An end that clocks leap over in an odd way: the next minute outside, within two days.
    moments = range(at_ms, at_ms + 2 * 1_440 * _MINUTE_MS, _MINUTE_MS)
    return next((moment for moment in moments if not quiet.hold(moment, zone)), at_ms)
