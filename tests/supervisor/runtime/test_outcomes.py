"""What the end of a try means, and how long the pause before a retry is."""

import errno
import re

import pytest

from lifebus.flows.progress import outcome_text
from lifebus_contract.flows import CodeMap, CodeRule, Outcome, OutcomeKind, RetryPause, StepVerdict
from lifebus_supervisor.runtime.rules.outcome_text import describe_outcome
from lifebus_supervisor.runtime.rules.outcomes import judge
from lifebus_supervisor.runtime.rules.retry_pause import pause_ms
from lifebus_supervisor.runtime.step_outcome import never_started, outcome_of
from support.flows import CODES, exited, flow, step

PROCEED, RETRY, ESCALATE, ALERT = StepVerdict

EXPECTED = {0: PROCEED, 1: RETRY, 2: ESCALATE, 126: ALERT, 127: ALERT} | dict.fromkeys(range(64, 79), RETRY)


@pytest.mark.parametrize("code", range(256))
def test_every_code_has_the_verdict_of_its_rule_and_every_other_one_is_unknown(code: int) -> None:
    found = judge(exited(code), step("a"), flow("/", step("a")))
    assert found.verdict is EXPECTED.get(code, ESCALATE)
    assert found.unknown_code is (code not in EXPECTED)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome(kind=OutcomeKind.SIGNALLED, signal=9), RETRY),
        (Outcome(kind=OutcomeKind.SIGNALLED, signal=9, code=137), RETRY),
        (Outcome(kind=OutcomeKind.TIMED_OUT), RETRY),
        (Outcome(kind=OutcomeKind.CANNOT_START), ALERT),
        (Outcome(kind=OutcomeKind.UNVERIFIED, code=0), RETRY),
        (Outcome(kind=OutcomeKind.INTERRUPTED), None),
        (Outcome(kind=OutcomeKind.ABORTED), None),
    ],
)
def test_what_is_no_exit_code_has_a_verdict_of_its_own(outcome: Outcome, expected: StepVerdict | None) -> None:
    found = judge(outcome, step("a"), flow("/", step("a")))
    assert (found.verdict, found.unknown_code) == (expected, False)


@pytest.mark.parametrize(
    "outcome",
    [
        *(outcome_of(status, None) for status in (0, 3, -9, 137, -64, 255)),
        *(outcome_of(status, kind) for status in (0, -9) for kind in (OutcomeKind.TIMED_OUT, OutcomeKind.ABORTED)),
        *(
            never_started({"stage": one, "number": errno.EACCES}, "p", "/d")
            for one in ("exec", "cwd", "output", "limits")
        ),
        Outcome(kind=OutcomeKind.INTERRUPTED, detail="the process that watched over it was killed"),
        Outcome(kind=OutcomeKind.UNVERIFIED, code=0, detail="`dist/app.tar` is not there"),
    ],
    ids=repr,
)
def test_how_a_try_ended_is_said_without_saying_anything_twice(outcome: Outcome) -> None:
    for text in (outcome_text(outcome), describe_outcome(outcome)):
        words = re.findall(r"[A-Za-z]{4,}", text)
        assert sorted(words) == sorted(set(words)), text


def test_a_signal_is_said_by_its_name() -> None:
    assert describe_outcome(outcome_of(-9, None)) == "SIGKILL ended it"
    assert describe_outcome(outcome_of(143, None), "stopped") == "SIGTERM ended it (stopped)"


def test_a_steps_own_rules_come_before_the_flows_and_its_other_verdicts_replace_them() -> None:
    own = CodeMap(rules=(CodeRule(first=1, last=1, verdict=ALERT, label="MINE"),), unknown=RETRY, timed_out=ESCALATE)
    one = step("a", codes=own)
    definition = flow("/", one)
    assert judge(exited(1), one, definition).label == "MINE"
    assert judge(exited(0), one, definition).verdict is PROCEED
    assert judge(exited(3), one, definition).verdict is RETRY
    assert judge(Outcome(kind=OutcomeKind.TIMED_OUT), one, definition).verdict is ESCALATE


def test_a_rule_that_names_the_raw_code_decides_about_a_signal_too() -> None:
    rules = CodeMap(rules=(CodeRule(first=137, last=137, verdict=ESCALATE), *CODES.rules))
    killed = Outcome(kind=OutcomeKind.SIGNALLED, signal=9, code=137)
    assert judge(killed, step("a"), flow("/", step("a"), codes=rules)).verdict is ESCALATE


def test_pauses_double_up_to_the_longest_and_the_jitter_only_adds() -> None:
    pause = RetryPause()
    plain = [pause_ms(pause, retry, 0.0) for retry in range(8)]
    assert plain == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]
    assert [pause_ms(pause, retry, 1.0) for retry in range(8)] == [ms + ms // 4 for ms in plain]
    assert pause_ms(pause, 1_000, 0.5) == 33_750
