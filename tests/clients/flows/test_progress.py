"""What is told of a run between two looks at it."""

from itertools import pairwise

import pytest
from msgspec import structs

from lifebus.flows.durations import duration_ms, duration_text
from lifebus.flows.progress import changes, outcome_text, status_text
from lifebus_contract.flows import FlowDefinition, Outcome, OutcomeKind, StepDefinition, StepVerdict
from lifebus_contract.runs import RunInfo, RunStatus, StepInfo, StepStatus, TryInfo

FLOW = FlowDefinition(
    name="f",
    client_id="c",
    root="/r",
    steps=(StepDefinition(step_id="a", command=("x",)), StepDefinition(step_id="b", command=("x",), max_retries=0)),
)
BEGUN = RunInfo(
    run_id="f-1",
    name="f",
    client_id="c",
    root="/r",
    owner="broker",
    status=RunStatus.RUNNING,
    started_at_ms=1_000,
    steps=(StepInfo(step_id="a"), StepInfo(step_id="b")),
    number=1,
)
FAILED = Outcome(kind=OutcomeKind.EXITED, code=64)


def with_step(run: RunInfo, **fields: object) -> RunInfo:
    first = structs.replace(run.steps[0], **fields)
    return structs.replace(run, steps=(first, *run.steps[1:]), number=run.number + 1)


def told(before: RunInfo | None, after: RunInfo) -> list[tuple[str | None, str]]:
    return [(one.step_id, one.text) for one in changes(before, after, FLOW)]


def one_try(number: int, retry: int, *, outcome: Outcome | None = None, verdict: StepVerdict | None = None) -> TryInfo:
    ended = None if outcome is None else 3_500
    return TryInfo(
        number=number, retry=retry, started_at_ms=2_000, ended_at_ms=ended, outcome=outcome, verdict=verdict, label="L"
    )


def test_the_name_of_a_signal_is_said_once() -> None:
    by_name = Outcome(kind=OutcomeKind.SIGNALLED, signal=15, detail="SIGTERM")
    by_code = Outcome(kind=OutcomeKind.SIGNALLED, signal=15, code=143, detail="code 143 of a shell")
    assert outcome_text(by_name) == "SIGTERM"
    assert outcome_text(by_code) == "SIGTERM: code 143 of a shell"


def test_a_step_is_told_from_its_first_try_to_its_end() -> None:
    running = with_step(BEGUN, status=StepStatus.RUNNING, tries=(one_try(1, 0),))
    failed = one_try(1, 0, outcome=FAILED, verdict=StepVerdict.RETRY)
    backing_off = with_step(running, status=StepStatus.BACKING_OFF, tries=(failed,), retry_at_ms=4_700)
    again = with_step(backing_off, status=StepStatus.RUNNING, tries=(one_try(2, 1),), retry_at_ms=None)
    ended = one_try(2, 1, outcome=Outcome(kind=OutcomeKind.EXITED, code=0), verdict=StepVerdict.PROCEED)
    done = with_step(again, status=StepStatus.DONE, tries=(ended,))
    assert told(None, BEGUN) == []
    assert [told(*pair) for pair in pairwise((BEGUN, running, backing_off, again, done))] == [
        [("a", "try 1 of 4")],
        [("a", "try 1 of 4: code 64 (L) after 1.5 s; tried again in 1.2 s")],
        [("a", "try 2 of 4")],
        [("a", "done after 1.5 s")],
    ]
    assert told(BEGUN, done) == [("a", "done after 1.5 s")]  # what happened unseen is told by how it ended
    assert told(done, done) == []


def test_a_question_is_told_with_its_id_once() -> None:
    failed = one_try(1, 0, outcome=FAILED, verdict=StepVerdict.ESCALATE)
    asking = with_step(BEGUN, status=StepStatus.ASKING, tries=(failed,), question_id="q1")
    asking = structs.replace(asking, status=RunStatus.WAITING)
    found = list(changes(BEGUN, asking, FLOW))
    assert [(one.step_id, one.question_id) for one in found] == [("a", None), ("a", "q1"), (None, None)]
    assert found[-1].text == "waiting for a person"
    assert told(asking, structs.replace(asking, number=9)) == []


def test_what_needs_no_try_is_told_by_its_status() -> None:
    assert told(BEGUN, with_step(BEGUN, status=StepStatus.SKIPPED)) == [("a", "skipped")]


def test_an_interrupted_try_says_that_it_runs_again() -> None:
    lost = one_try(1, 0, outcome=Outcome(kind=OutcomeKind.INTERRUPTED), verdict=StepVerdict.RETRY)
    ((_, text),) = told(BEGUN, with_step(BEGUN, tries=(lost,)))
    assert text == "try 1 of 4: interrupted (L) after 1.5 s; it runs again"


def test_an_interruption_is_told_even_where_nothing_else_was_seen_of_it() -> None:
    done = one_try(2, 0, outcome=Outcome(kind=OutcomeKind.EXITED, code=0), verdict=StepVerdict.PROCEED)
    after = structs.replace(with_step(BEGUN, status=StepStatus.DONE, tries=(done,)), interruptions=1)
    assert told(BEGUN, after) == [
        *((None, "was interrupted; a try that had not ended runs again"), ("a", "done after 1.5 s"))
    ]


def test_the_end_of_a_run_says_how_long_it_took_and_why_it_failed() -> None:
    over = structs.replace(BEGUN, status=RunStatus.FAILED, ended_at_ms=3_723_000, reason="`a`: code 1")
    assert status_text(over) == "failed after 1 h 2 min: `a`: code 1"
    assert told(BEGUN, over) == [(None, "failed after 1 h 2 min: `a`: code 1")]


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        (RunStatus.ABORTED, "aborted by ann", "aborted by ann after 2 s"),
        (RunStatus.ABORTED, "enough", "aborted after 2 s: enough"),
        (RunStatus.FAILED, "`a`: it ended with code 1", "failed after 2 s: `a`: it ended with code 1"),
        (RunStatus.COMPLETED, "", "completed after 2 s"),
    ],
)
def test_how_a_run_ended_is_said_without_saying_anything_twice(status: RunStatus, reason: str, said: str) -> None:
    assert status_text(structs.replace(BEGUN, status=status, ended_at_ms=3_000, reason=reason)) == said


@pytest.mark.parametrize("kind", list(OutcomeKind))
def test_each_way_to_end_has_words(kind: OutcomeKind) -> None:
    assert outcome_text(Outcome(kind=kind, detail="why")).endswith(": why")


def test_signals_have_their_names() -> None:
    names = [outcome_text(Outcome(kind=OutcomeKind.SIGNALLED, signal=number)) for number in (9, 15, 64, 127)]
    assert names[:2] == ["SIGKILL", "SIGTERM"]
    assert names[3] == "signal 127"


@pytest.mark.parametrize(
    ("text", "milliseconds", "shown"),
    [
        *(("0s", 0, "0 ms"), ("999ms", 999, "999 ms"), ("1.5s", 1_500, "1.5 s"), ("59s", 59_000, "59 s")),
        *(("10m", 600_000, "10 min"), ("2h", 7_200_000, "2 h"), ("1.5d", 129_600_000, "1 d 12 h")),
    ],
)
def test_durations_are_read_and_said(text: str, milliseconds: int, shown: str) -> None:
    assert duration_ms(text) == milliseconds
    assert duration_text(milliseconds) == shown


@pytest.mark.parametrize("text", ["", "5", "5 s", "-1s", "1w", "1s\n", 5, None])
def test_what_is_no_duration_is_none(text: object) -> None:
    assert duration_ms(text) is None
