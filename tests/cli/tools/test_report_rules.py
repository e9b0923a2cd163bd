"""The sums of `lifebus report` against sums that are made in another way: of plain dicts, and second by second."""

import json
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus.cli.tools.report_rules import MAX_STEPS, ReportRow, Span, Sums, total_of
from lifebus.cli.tools.report_words import count_text, span_text
from lifebus_contract import Receipt, encode_json
from lifebus_contract.codec import decode_receipt
from support.histories import history
from support.receipts import receipt

AT_S = 1_790_000_000
HOUR = Span(since_ms=AT_S * 1000, until_ms=(AT_S + 3_600) * 1000)
KEY = ("claude", "s1")


def row_of(sums: Sums) -> ReportRow:
    (row,) = sums.rows({})
    return row


def made(number: int, **fields: Any) -> Receipt:
    """A receipt as it comes from the wire: of types, not of texts."""
    return decode_receipt(encode_json(receipt(number, adapter_id=KEY[0], **fields)))


def told(number: int, at_s: int, **facts: Any) -> Any:
    return made(
        number,
        harness_session_id=KEY[1],
        event="supervisor.tick",
        at_epoch_s=at_s,
        event_id=f"evt_{number}",
        invocation_id=f"inv_{number}",
        telemetry_summary=facts,
    )


def plain_sums(lines: list[dict[str, Any]], first: int, last: int) -> dict[str, dict[str, int]]:
    """Return what the receipts of a span say, by adapter, read as JSON and without any of the product's code."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    seen: dict[str, set[Any]] = defaultdict(set)
    newest: dict[Any, list[Any]] = defaultdict(lambda: [None, None])
    for one in lines:
        session, facts = one["harness_session_id"], one["telemetry_summary"]
        if session is None or not first <= one["at_epoch_s"] <= last:
            continue
        adapter, key = one["adapter_id"], (one["adapter_id"], session)
        seen[adapter].add(session)
        event = (one["event_id"], one["invocation_id"])
        if "client_background" in facts or "corrects" in facts:
            if one["status"] == "failed" and newest[key][1] != event:
                newest[key][1] = event
                found[adapter]["failures"] += 1
            continue
        if one["event"] == "context.compacted" and newest[key][0] != event:
            newest[key][0] = event
            found[adapter]["compactions"] += 1
        failed = one["event"] == "frame.ended" and facts.get("frame_end") == "failed"
        failed |= one["event"] == "session.ended" and facts.get("session_end") == "failed"
        if (failed or one["status"] == "failed") and newest[key][1] != event:
            newest[key][1] = event
            found[adapter]["failures"] += 1
        used = facts.get("context_used_pct")
        if one["event"] == "context.pressure_observed" and type(used) is int:
            found[adapter]["peak"] = max(used, found[adapter]["peak"])
    for adapter, sessions in seen.items():
        found[adapter]["sessions"] = len(sessions)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_histories_sum_up_to_what_their_json_says(seed: int) -> None:
    receipts = [entry.receipt for entry in history(seed, 400)]
    times = sorted(one.at_epoch_s for one in receipts)
    first, last = times[len(times) // 4], times[-len(times) // 4]
    sums = Sums(Span(since_ms=first * 1000, until_ms=last * 1000))
    for one in receipts:
        sums.add(one)
    expected = plain_sums([json.loads(encode_json(one)) for one in receipts], first, last)
    assert set(expected) == {row.adapter_id for row in sums.rows({})}
    for row in sums.rows({}):
        names = ("sessions", "compactions", "failures")
        assert [expected[row.adapter_id][name] for name in names] == [getattr(row, name) for name in names]
        assert expected[row.adapter_id]["peak"] == (row.peak_used_pct or 0)


@st.composite
def wait_histories(draw: st.DrawFn) -> list[tuple[int, int, str]]:
    """Some waits of one session: from when until when, for what; times may lie outside of the span."""
    waits = st.tuples(st.integers(-50, 50), st.integers(1, 60), st.sampled_from(("permission", "input", "idle")))
    return [(begin, begin + length, kind) for begin, length, kind in draw(st.lists(waits, max_size=6))]


@given(wait_histories(), st.booleans())
def test_time_waited_is_the_time_in_which_anything_was_waited_for(
    waits: list[tuple[int, int, str]], is_left_open: bool
) -> None:
    # Two waits of a kind that begin in one second are one to those who report them.
    waits = list({(begin, kind): (begin, end, kind) for begin, end, kind in waits}.values())
    span = Span(since_ms=AT_S * 1000, until_ms=(AT_S + 40) * 1000)
    sums = Sums(span)
    for begin, _, kind in waits:
        if is_left_open and begin < 0:
            sums.note_wait(KEY, kind, (AT_S + begin) * 1000)
    moments = [(begin, 0, begin, kind) for begin, _, kind in waits]
    moments += [] if is_left_open else [(end, 1, begin, kind) for begin, end, kind in waits]
    for number, (at, is_end, begin, kind) in enumerate(sorted(moments), 1):
        facts = {"waiting": "begun", "waiting_for": kind, "waiting_since_ms": (AT_S + begin) * 1000}
        if is_end:
            facts |= {"waiting": "ended", "waited_ms": (at - begin) * 1000}
        sums.add(told(number, AT_S + at, **facts))
    # An end behind the span is not read, and the session's head does not say any more that it waited.
    known = [one for one in waits if is_left_open or one[0] >= 0 or one[1] <= 40]

    def seconds(kinds: set[str]) -> int:
        ends = [(begin, 40 if is_left_open else end) for begin, end, kind in known if kind in kinds]
        return sum(any(begin <= second < end for begin, end in ends) for second in range(40))

    rows = sums.rows({})
    waited = [(row.waited_ms // 1000, row.idle_ms // 1000) for row in rows] or [(0, 0)]
    assert waited == [(seconds({"permission", "input"}), seconds({"idle"}))]


def test_a_session_that_ends_waits_for_nobody() -> None:
    sums = Sums(HOUR)
    sums.add(told(1, AT_S + 10, waiting="begun", waiting_for="permission", waiting_since_ms=(AT_S + 10) * 1000))
    ended = made(2, harness_session_id=KEY[1], event="session.ended", at_epoch_s=AT_S + 25)
    sums.add(ended)
    assert row_of(sums).waited_ms == 15_000


def frame(number: int, frame_id: str, event: str = "frame.opened", parent: str | None = None, **facts: Any) -> Any:
    facts |= {"frame_id": frame_id} | ({"parent_frame_id": parent} if parent else {})
    return made(number, harness_session_id=KEY[1], event=event, at_epoch_s=AT_S, telemetry_summary=facts)


def test_turns_and_sub_agents_count_once_each() -> None:
    sums = Sums(HOUR)
    for number, (name, event, parent) in enumerate(
        [
            ("f1", "frame.opening", None),
            ("f1", "frame.opened", None),
            ("f2", "frame.opened", "f1"),
            ("f2", "frame.ended", "f1"),
            ("f1", "frame.ended", None),
            ("f3", "frame.ended", None),  # it began before the span
        ],
        1,
    ):
        sums.add(frame(number, name, event, parent))
    assert (row_of(sums).turns, row_of(sums).subagents) == (2, 1)


def test_an_event_that_failed_counts_once_whoever_was_asked_about_it() -> None:
    sums = Sums(HOUR)
    lost = {"status": "failed", "failure_class": "timeout", "retry_class": "safe_retry", "at_epoch_s": AT_S}
    for number, (event, client) in enumerate([("e1", "a"), ("e1", "b"), ("e2", "a")], 1):
        ids = {"event_id": event, "invocation_id": event, "client_id": client}
        sums.add(made(number, harness_session_id=KEY[1], **ids, **lost))
    assert row_of(sums).failures == 2


def test_payloads_that_were_placed_count_and_what_is_taken_back_is_said() -> None:
    def placed(number: int, status: str, placement: str | None, **facts: Any) -> Any:
        one = {"payload_id": f"p{number}", "payload_kind": "note", "byte_size": 1, "status": status}
        return made(
            number,
            harness_session_id=KEY[1],
            at_epoch_s=AT_S,
            payload_receipts=({**one, "placement": placement},),
            telemetry_summary=facts,
        )

    sums = Sums(HOUR)
    sums.add(placed(1, "delivered", "pre_prompt_frame"))
    sums.add(placed(2, "degraded", "pre_prompt_frame"))
    sums.add(placed(3, "skipped", None))
    sums.add(placed(4, "observed", "receipt_only"))
    sums.add(placed(5, "failed", "pre_prompt_frame", corrects="lfr_1"))
    sums.add(placed(6, "delivered", "receipt_only"))
    assert (row_of(sums).injected, row_of(sums).taken_back) == (2, 1)


def test_sessions_are_grouped_by_harness_and_folder() -> None:
    sums = Sums(HOUR)
    for number, (adapter, session, cwd) in enumerate(
        [("claude", "a", "/srv/api"), ("claude", "b", "api"), ("claude", "c", None), ("codex", "d", "~")], 1
    ):
        facts = {} if cwd is None else {"cwd": cwd}
        sums.add(
            receipt(number, adapter_id=adapter, harness_session_id=session, at_epoch_s=AT_S, telemetry_summary=facts)
        )
    rows = sums.rows({("claude", "c"): "web"})
    assert [(row.adapter_id, row.project, row.sessions) for row in rows] == [
        ("claude", "api", 2),
        ("claude", "web", 1),
        ("codex", "~", 1),
    ]
    assert total_of(rows).sessions == 4


def test_the_last_measurement_is_the_newest_of_the_group() -> None:
    sums = Sums(HOUR)
    for number, (session, used) in enumerate([("a", 90), ("b", 20), ("a", 60)], 1):
        sums.add(
            made(
                number,
                harness_session_id=session,
                event="context.pressure_observed",
                at_epoch_s=AT_S,
                telemetry_summary={"context_used_pct": used},
            )
        )
    assert (row_of(sums).peak_used_pct, row_of(sums).last_used_pct) == (90, 60)


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0s"), (59_999, "59s"), (60_000, "1m"), (7_500_000, "2h05m"), (10**10, "115d")]
)
def test_spans_are_short(ms: int, text: str) -> None:
    assert span_text(ms) == text


@given(st.integers(0, 10**13))
def test_a_count_takes_few_columns(count: int) -> None:
    assert len(count_text(count)) <= 6


@pytest.mark.parametrize("seed", range(4))
def test_the_steps_of_a_span_sum_up_to_its_rows(seed: int) -> None:
    receipts = [entry.receipt for entry in history(seed, 400)]
    times = [one.at_epoch_s * 1000 for one in receipts]
    span = Span(since_ms=min(times) + 1, until_ms=max(times))
    sums = Sums(span)
    for one in receipts:
        sums.add(one)
    steps, rows = sums.steps({}), sums.rows({})
    begins = {span.since_ms + number * span.step_ms for number in range(MAX_STEPS)}
    assert {step.begins_ms for step in steps} <= begins
    assert max(begins) <= span.until_ms
    assert len(steps) > len(rows)
    for row in rows:
        own = [step for step in steps if (step.adapter_id, step.project) == (row.adapter_id, row.project)]
        for name in ("turns", "compactions", "failures"):
            assert sum(getattr(step, name) for step in own) == getattr(row, name)
        peaks = [step.peak_used_pct for step in own if step.peak_used_pct is not None]
        assert max(peaks, default=None) == row.peak_used_pct
