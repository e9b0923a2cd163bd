"""What becomes a notice and when, as plain decisions: against a model that reads the whole history each time."""

from typing import Any, get_args

from hypothesis import example, given
from hypothesis import strategies as st

from lifebus.cli.tools.notify_rules import KINDS, Notice, NoticePlan, Occasions, message_of, text_of, verdict_on
from lifebus.cli.tools.session_choice import SessionChoice
from lifebus_contract import Receipt, encode_json
from lifebus_contract.codec import decode_receipt
from lifebus_supervisor.configuration.notifications import ReportedKind
from support.receipts import receipt

AT_S = 1_790_000_000
KEY = ("claude", "s1")
ALL = NoticePlan(kinds=frozenset(KINDS))


def made(number: int, event: str, *, event_number: int | None = None, **fields: Any) -> Receipt:
    """A receipt as it comes from the wire."""
    same = number if event_number is None else event_number
    plain = {"adapter_id": KEY[0], "harness_session_id": KEY[1], "at_epoch_s": AT_S, "event": event, **fields}
    facts = plain.pop("facts", {})
    ids = {"event_id": f"evt_{same}", "invocation_id": f"inv_{same}"}
    return decode_receipt(encode_json(receipt(number, telemetry_summary=facts, **ids, **plain)))


def kinds_of(receipts: list[Receipt], plan: NoticePlan = ALL) -> list[str | None]:
    occasions = Occasions(plan)
    return [occasions.kind_of(one, KEY) for one in receipts]


def test_each_event_is_an_occasion_once_and_of_its_kind() -> None:
    wait = {"waiting": "begun", "waiting_for": "permission"}
    found = kinds_of(
        [
            made(1, "supervisor.tick", facts=wait),
            made(2, "supervisor.tick", facts=wait, event_number=1, client_id="bob"),
            made(3, "supervisor.tick", facts={"waiting": "begun", "waiting_for": "idle"}),
            made(4, "supervisor.tick", facts={"waiting": "ended", "waiting_for": "permission"}),
            made(5, "frame.ended", facts={"frame_id": "f1"}),
            made(6, "frame.ended", facts={"frame_id": "f2", "parent_frame_id": "f1"}),
            made(7, "frame.ended", facts={"frame_id": "f3", "frame_end": "failed"}),
            made(8, "frame.opening", status="failed", failure_class="timeout", retry_class="safe_retry"),
            made(9, "session.ended"),
            made(10, "session.started"),
            made(11, "frame.ended", facts={"frame_id": "f4", "client_background": True}),
            made(12, "supervisor.tick", facts=wait | {"waiting_kind": "flow.escalation"}),
            made(13, "capability.degraded", facts={"cause": "hooks_silent"}, capability_degradations=[weaker()]),
            made(14, "capability.degraded", facts={"cause": "hooks_silent"}, capability_degradations=[back()]),
            made(15, "capability.degraded", facts={"cause": "telemetry_missing"}, capability_degradations=[weaker()]),
        ]
    )
    assert found[:11] == ["waits", None, "idle", None, "ends", None, "failures", "failures", "ends", None, None]
    assert found[11:] == ["escalations", "silence", None, None]


def weaker(before: str = "native", after: str = "unavailable") -> dict[str, Any]:
    """What a receipt says of a capability that became weaker."""
    return {
        "capability": "event:frame.opened",
        "previous_support": before,
        "current_support": after,
        "event": "capability.degraded",
        "evidence": "no hook",
        "observed_at_epoch_s": AT_S,
        "retry_class": "retry_after_reconfigure",
    }


def back() -> dict[str, Any]:
    return weaker("unavailable", "native")


def test_whoever_asks_for_waits_alone_is_told_of_those_of_flows() -> None:
    facts = {"waiting": "begun", "waiting_for": "input", "waiting_kind": "flow.escalation"}
    one = made(1, "supervisor.tick", facts=facts)
    assert kinds_of([one], NoticePlan(kinds=frozenset({"waits"}))) == ["waits"]
    assert kinds_of([one], NoticePlan(kinds=frozenset({"escalations"}))) == ["escalations"]
    assert text_of(one, "escalations", "flow#1") == "flow#1 waits for an answer (flow.escalation)"


def test_silence_says_of_what() -> None:
    one = made(1, "capability.degraded", facts={"cause": "app_silent"}, capability_degradations=[weaker()])
    assert text_of(one, "silence", "api#1") == "api#1 is silent: its app reported nothing of its work"


def test_a_rule_takes_what_the_flag_takes() -> None:
    assert get_args(ReportedKind) == KINDS


@given(st.lists(st.one_of(st.integers(0, 100), st.none()), max_size=30), st.integers(20, 100), st.integers(0, 30))
def test_a_context_is_reported_when_it_gets_full_and_again_once_it_was_emptier(
    measured: list[int | None], bound: int, forgotten_at: int
) -> None:
    def of(number: int, used: int | None) -> Receipt:
        if used is None:
            return made(number, "context.compacted")
        return made(number, "context.pressure_observed", facts={"context_used_pct": used})

    history = [of(number, used) for number, used in enumerate(measured)]
    occasions = Occasions(NoticePlan(kinds=frozenset(KINDS), pressure_pct=bound))
    found: list[int] = []
    for number, one in enumerate(history):
        if number == forgotten_at:  # another process takes over, and reads what was before
            occasions = Occasions(NoticePlan(kinds=frozenset(KINDS), pressure_pct=bound))
            for earlier in history[:number]:
                occasions.note_pressure(earlier, KEY)
        if occasions.kind_of(one, KEY) == "pressure":
            found.append(number)
    expected: list[int] = []
    is_armed = True
    for number, used in enumerate(measured):
        if used is not None and used >= bound and is_armed:
            expected.append(number)
            is_armed = False
        elif used is None or used < bound - 10:
            is_armed = True
    assert found == expected


def a_notice(at_ms: int, since_ms: int | None) -> Notice:
    return Notice(
        notice_id="e:1",
        kind="ends" if since_ms is None else "waits",
        adapter_id=KEY[0],
        session=KEY[1],
        name="api#1",
        project="api",
        at_ms=at_ms,
        text="api#1 has ended",
        since_ms=since_ms,
    )


moments = st.integers(0, 10_000_000)


@given(moments, moments, st.sampled_from((True, False, None)))
def test_a_wait_is_shown_when_it_lasts_and_never_once_it_is_over(
    since_ms: int, now_ms: int, still_waits: bool | None
) -> None:
    verdict = verdict_on(a_notice(since_ms, since_ms), now_ms, ALL, still_waits=still_waits)
    if still_waits is False:
        assert verdict.what == "drop"
    elif now_ms - since_ms >= ALL.after_ms:
        assert verdict.what == "show"
    else:
        # Looked at again when it is due; never later than a whole pause, whatever the clock says.
        assert verdict.what == "later"
        assert 0 < verdict.delay_ms <= ALL.after_ms
        assert verdict.delay_ms == min(since_ms + ALL.after_ms - now_ms, ALL.after_ms)


@given(moments, moments, st.booleans(), st.integers(0, 10_000_000))
@example(at_ms=1, now_ms=1, drops=False, quiet_until=2)
@example(at_ms=1, now_ms=1, drops=True, quiet_until=2)
def test_everything_else_is_shown_while_it_is_new_and_not_of_quiet_hours(
    at_ms: int, now_ms: int, drops: bool, quiet_until: int
) -> None:
    plan = NoticePlan(kinds=frozenset(KINDS), is_quiet=lambda at: at < quiet_until, drops_quiet=drops)
    what = verdict_on(a_notice(at_ms, None), now_ms, plan, still_waits=None).what
    if at_ms < quiet_until:
        assert what == ("drop" if drops else "count")
    else:
        assert what == ("count" if now_ms - at_ms > plan.max_age_ms else "show")


def test_a_message_has_one_line_or_a_few_and_counts_what_is_old() -> None:
    one = a_notice(AT_S, None)
    single = message_of("notify", "m", [one], [], 1)
    assert (single.title, single.text, single.summed) == ("api#1 has ended", "", {})
    many = message_of("notify", "m", [one] * 7, [one, a_notice(AT_S, AT_S)], 1)
    assert many.title == "7 notices of 1 session"
    assert many.text.splitlines() == ["api#1 has ended"] * 5 + ["and 2 more", "before: 1 waits, 1 ends"]
    assert message_of("notify", "m", [], [one] * 3, 1).title == "before: 3 ends"


def test_a_line_steers_no_terminal_and_quotes_no_request() -> None:
    facts = {"waiting": "begun", "waiting_for": "permission", "waiting_kind": "Ba\x1b]0;x\x07sh", "prompt": "PRIVATE"}
    line = text_of(made(1, "supervisor.tick", facts=facts), "waits", "api#1")
    assert line.isprintable()
    assert "PRIVATE" not in line


def test_sessions_are_chosen_by_harness_folder_and_name() -> None:
    def chosen(**fields: Any) -> bool:
        return SessionChoice(**fields).matches("claude", "abc", "/srv/api", "api#3")

    assert chosen()
    assert chosen(adapters=("claude",), projects=("a*",), sessions=("api#3",))
    assert all(chosen(projects=(one,)) for one in ("api", "/srv/*"))
    assert all(chosen(sessions=(one,)) for one in ("abc", "claude/abc"))
    assert not any((chosen(adapters=("codex",)), chosen(projects=("web",)), chosen(sessions=("api#4",))))
