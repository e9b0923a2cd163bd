"""Quiet hours against an oracle that looks at every minute's clock, also where clocks are set."""

import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_supervisor.runtime.inbox.quiet_hours import QuietHours
from lifebus_supervisor.runtime.inbox.records import QuestionState
from lifebus_supervisor.runtime.inbox.reminders import ReminderPlan, after_quiet_ms, reminder_due_ms
from support.inbox.questions import AT_MS, answer, question

MINUTE_MS = 60_000
ZONES = ("UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")


def ms(text: str) -> int:
    """Return a moment in UTC as milliseconds."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("quiet", "zone", "at", "expected"),
    [
        ("22:00-07:30", "Europe/Vienna", "2026-01-10T20:59:00", "2026-01-10T20:59:00"),
        ("22:00-07:30", "Europe/Vienna", "2026-01-10T21:00:00", "2026-01-11T06:30:00"),
        ("22:00-07:30", "Europe/Vienna", "2026-01-11T06:29:59", "2026-01-11T06:30:00"),
        ("12:00-13:00", "UTC", "2026-01-10T12:15:00", "2026-01-10T13:00:00"),
        # clocks go forward at 01:00 UTC on 2026-03-29: the night is an hour shorter
        ("22:00-07:30", "Europe/Vienna", "2026-03-28T21:00:00", "2026-03-29T05:30:00"),
        # and back at 01:00 UTC on 2026-10-25: the night is an hour longer
        ("22:00-07:30", "Europe/Vienna", "2026-10-24T20:00:00", "2026-10-25T06:30:00"),
        # an end that clocks leap over is the moment at which they do
        ("22:00-02:30", "Europe/Vienna", "2026-03-28T23:00:00", "2026-03-29T01:00:00"),
        # an end that comes twice counts at the first time, and what is quiet again then at the second
        ("22:00-02:30", "Europe/Vienna", "2026-10-24T23:00:00", "2026-10-25T00:30:00"),
        ("22:00-02:30", "Europe/Vienna", "2026-10-25T01:10:00", "2026-10-25T01:30:00"),
    ],
)
def test_the_end_of_quiet_hours(quiet: str, zone: str, at: str, expected: str) -> None:
    assert after_quiet_ms(ms(at), QuietHours.parse(quiet), ZoneInfo(zone)) == ms(expected)


def is_quiet(at_ms: int, start: int, until: int, zone: ZoneInfo) -> bool:
    """Whether the clock on the wall shows a quiet minute."""
    local = datetime.fromtimestamp(at_ms / 1000, zone)
    minute = local.hour * 60 + local.minute
    return start <= minute < until if start < until else minute >= start or minute < until


@given(
    zone=st.sampled_from(ZONES),
    at_min=st.integers(ms("2026-01-01") // MINUTE_MS, ms("2027-01-01") // MINUTE_MS),
    start=st.integers(0, 1439),
    until=st.integers(0, 1439),
)
def test_what_follows_is_the_first_minute_that_is_not_quiet(zone: str, at_min: int, start: int, until: int) -> None:
    if start == until:
        return
    text = f"{start // 60:02}:{start % 60:02}-{until // 60:02}:{until % 60:02}"
    found = after_quiet_ms(at_min * MINUTE_MS, QuietHours.parse(text), ZoneInfo(zone))
    minute = at_min
    while is_quiet(minute * MINUTE_MS, start, until, ZoneInfo(zone)):
        minute += 1
    assert found == minute * MINUTE_MS


def test_the_zone_of_the_machine_counts_without_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        quiet = QuietHours.parse("22:00-07:30")
        # clocks go forward on 2026-03-08
        assert after_quiet_ms(ms("2026-03-08T05:00:00"), quiet, None) == ms("2026-03-08T11:30:00")
        assert after_quiet_ms(ms("2026-03-07T05:00:00"), quiet, None) == ms("2026-03-07T12:30:00")
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "22:00", "22:00-22:00", "24:00-07:00", "7:00-9:00", "22:00-07:60", "22 - 07"])
def test_what_is_no_span_of_hours_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="two times of a day"):
        QuietHours.parse(text)


def test_pauses_double_up_to_the_longest_and_never_overflow() -> None:
    plan = ReminderPlan(first_ms=MINUTE_MS, longest_ms=5 * MINUTE_MS)
    pauses = []
    for number in (0, 1, 2, 3, 1_000_000):
        state = QuestionState(question=question(), occasion=number, occasion_at_ms=AT_MS)
        pauses.append((reminder_due_ms(state, plan) or 0) - AT_MS)
    assert pauses == [MINUTE_MS, 2 * MINUTE_MS, 4 * MINUTE_MS, 5 * MINUTE_MS, 5 * MINUTE_MS]


def test_settled_questions_and_those_of_who_wants_none_have_no_reminder() -> None:
    plan = ReminderPlan(first_ms=MINUTE_MS, longest_ms=MINUTE_MS)
    answered = QuestionState(question=question(), answer=answer(), occasion=1)
    assert reminder_due_ms(answered, plan) is None
    assert reminder_due_ms(QuestionState(question=question()), ReminderPlan(first_ms=0, longest_ms=1)) is None
