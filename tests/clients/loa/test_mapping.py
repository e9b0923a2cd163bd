"""Loa's escalations, phases, signals, costs and log as what the bus has, and back."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lifebus.loa.codes import CODES
from lifebus.loa.costs import cost_record, loa_costs, micros_of
from lifebus.loa.escalations import answer_of, question_of, request_of, response_of, text_of
from lifebus.loa.log_events import bus_event, in_order, loa_event, standard_events
from lifebus.loa.phases import flow_of
from lifebus.loa.protocol import Phase, RuntimeFault, StartRun
from lifebus.loa.signals import CONTEXT_TOKENS, loa_signals
from lifebus.loa.times import iso_of, ms_of
from lifebus.loa.types import (
    Cost,
    Decision,
    EscalationContext,
    EscalationRequest,
    EscalationResponse,
    LoaEvent,
    ResponseAction,
)
from lifebus_contract.flows import Outcome, OutcomeKind, RetryPause
from lifebus_contract.questions import Modifiable, Question, QuestionInfo
from lifebus_contract.runs import ContextSignals, CostSummary, RunInfo, RunStatus, StepInfo, StepStatus, TryInfo

REQUEST = EscalationRequest(
    reason="A password was found.",
    phase="audit",
    context=EscalationContext(
        last_decisions=(Decision(description="d", reasoning="because", timestamp="2026-02-03T04:05:05Z"),)
    ),
    suggested_actions=("Rotate it.",),
)
QUESTION = question_of(REQUEST, question_id="q", asked_at_ms=7)
ANSWERED_AT = "2026-02-03T04:05:06.789Z"


def response(action: ResponseAction, **more: Any) -> EscalationResponse:
    return EscalationResponse(responded_at=ANSWERED_AT, responder="ada", action=action, message="m", **more)


def test_an_escalation_is_a_question_that_has_all_of_it() -> None:
    assert (QUESTION.client_id, QUESTION.reason, QUESTION.suggested_actions) == ("loa", REQUEST.reason, ("Rotate it.",))
    assert request_of(QUESTION) == REQUEST


def test_what_a_question_has_no_room_for_is_cut_in_it_and_whole_behind_it() -> None:
    long = msgspec.structs.replace(
        REQUEST, reason="r" * 5_000, phase="p\n" * 300, suggested_actions=tuple("s" * 2_000 for _ in range(20))
    )
    question = question_of(long, question_id="q", asked_at_ms=7)
    assert len(question.reason) == 1_024
    assert len(question.suggested_actions) == 16
    assert request_of(question) == long


def test_a_runs_own_question_is_an_escalation_that_tells_of_its_tries() -> None:
    question = Question(
        question_id="q",
        client_id="loa",
        run_id="r",
        step_id="audit",
        title="t",
        reason="blocked",
        context={"root": "/p", "tries": [{"number": 1, "outcome": "code 2 (blocked)", "stderr": "no good"}]},
        asked_at_ms=7,
    )
    found = request_of(question)
    assert (found.phase, found.reason) == ("audit", "blocked")
    assert [error.message for error in found.context.errors] == ["try 1: code 2 (blocked): no good"]
    assert "no good" in text_of(found)


@pytest.mark.parametrize("action", list(ResponseAction))
def test_an_answer_comes_back_as_it_was_given(action: ResponseAction) -> None:
    more = {"modifications": {"a": [1, {"b": None}]}} if action is ResponseAction.MODIFY else {}
    given = response(action, **more)
    assert response_of(answer_of(given, QUESTION)) == given


def test_the_values_of_a_runs_question_are_named_one_by_one() -> None:
    question = msgspec.structs.replace(QUESTION, modifiable=(Modifiable(name="DEPTH"),))
    given = response(ResponseAction.MODIFY, modifications={"DEPTH": "3"})
    answer = answer_of(given, question)
    assert answer.modifications == {"DEPTH": "3"}
    assert response_of(answer) == given


@given(st.integers(min_value=0, max_value=4_102_444_800_000))
def test_times_are_the_same_both_ways(at_ms: int) -> None:
    assert ms_of(iso_of(at_ms)) == at_ms


@given(st.integers(min_value=0, max_value=10**12))
@example(249)  # 0.000249 * 1,000,000 is 248.99999999999997
def test_money_is_exact_to_the_millionth(micros: int) -> None:
    assert micros_of(micros / 1_000_000) == micros
    assert loa_costs(CostSummary(cost_micros=micros)).estimated_usd == micros / 1_000_000


def test_a_cost_is_counted_with_all_it_says() -> None:
    cost = Cost(phase="audit", tokens_input=5, tokens_output=2, api_calls=3, estimated_usd=0.1)
    found = cost_record(cost, "r")
    assert (found.step_id, found.input_tokens, found.output_tokens, found.calls) == ("audit", 5, 2, 3)
    assert found.cost_micros == 100_000


def test_phases_follow_one_another_under_the_contracts_codes() -> None:
    phases = tuple(Phase(phase=name, command=("true",)) for name in ("a", "b", "c"))
    flow = flow_of(StartRun(run_id="r", phases=phases, retry_pause_ms=5, near_limit_percent=50), "/p")
    assert (flow.client_id, flow.codes, flow.near_limit_percent) == ("loa", CODES, 50)
    assert flow.steps[0].needs == ()
    assert all(after.needs == (before.step_id,) for before, after in pairwise(flow.steps))
    pauses = {step.pause for step in flow.steps}
    assert pauses == {RetryPause(first_ms=5, longest_ms=5, jitter_percent=0)}
    (usual,) = flow_of(StartRun(run_id="r", phases=phases[:1]), "/p").steps
    assert usual.max_retries == 3
    assert usual.pause == RetryPause(first_ms=1_000, longest_ms=30_000, jitter_percent=25)


def test_only_what_is_behind_a_checkpoint_is_run() -> None:
    start = StartRun(run_id="r", phases=tuple(Phase(phase=name, command=("true",)) for name in ("a", "b", "c")))
    flow = flow_of(start, "/p", after="a")
    assert [(step.step_id, step.needs) for step in flow.steps] == [("b", ()), ("c", ("b",))]
    for after, said in (("c", "nothing is left"), ("x", "does not have")):
        with pytest.raises(RuntimeFault, match=said):
            flow_of(start, "/p", after=after)


def test_signals_are_numbers_where_the_contract_wants_some() -> None:
    nothing = loa_signals(ContextSignals())
    assert (nothing.context_tokens_available, nothing.context_tokens_used) == (CONTEXT_TOKENS, 0)
    assert nothing.time_remaining_ms is None
    used = loa_signals(ContextSignals(context_tokens_used=1_000))
    assert used.context_tokens_available == CONTEXT_TOKENS - 1_000
    known = ContextSignals(
        context_tokens_available=5, context_tokens_used=6, time_remaining_ms=7, retry_count=1, max_retries=2
    )
    found = loa_signals(msgspec.structs.replace(known, is_approaching_limit=True))
    assert msgspec.json.decode(msgspec.json.encode(found)) == {
        "context_tokens_available": 5,
        "context_tokens_used": 6,
        "time_remaining_ms": 7,
        "retry_count": 1,
        "max_retries": 2,
        "is_approaching_limit": True,
    }


def test_an_event_comes_back_as_it_was_logged() -> None:
    event = LoaEvent(event="x", timestamp=ANSWERED_AT, phase="audit", data={"a": [1]})
    bare = LoaEvent(event="x", timestamp=ANSWERED_AT)
    assert [loa_event(bus_event(one, "r")) for one in (event, bare)] == [event, bare]


def test_the_standard_events_are_read_from_what_is_durable() -> None:
    ended = TryInfo(
        number=2,
        retry=1,
        started_at_ms=20,
        ended_at_ms=30,
        outcome=Outcome(kind=OutcomeKind.EXITED, code=0),
    )
    first = TryInfo(number=1, started_at_ms=5, ended_at_ms=10, outcome=Outcome(kind=OutcomeKind.EXITED, code=1))
    running = TryInfo(number=1, started_at_ms=31)
    run = RunInfo(
        run_id="r",
        name="n",
        client_id="loa",
        root="/p",
        owner="broker",
        status=RunStatus.RUNNING,
        started_at_ms=1,
        steps=(
            StepInfo(step_id="a", status=StepStatus.DONE, tries=(first, ended)),
            StepInfo(step_id="b", status=StepStatus.RUNNING, tries=(running,)),
        ),
    )
    about_a = msgspec.structs.replace(QUESTION, run_id="r", step_id="a", asked_at_ms=12)
    of_others = msgspec.structs.replace(QUESTION, run_id="another", step_id="a")
    infos = [QuestionInfo(question=one) for one in (about_a, of_others, QUESTION)]
    found = in_order(standard_events(run, infos, [("ckpt", "a", "1970-01-01T00:00:00.030500Z")]))
    assert [(one.event, one.phase, one.timestamp) for one in found] == [
        ("phase_start", "a", iso_of(5)),
        ("escalation_triggered", "a", iso_of(12)),
        ("phase_start", "a", iso_of(20)),
        ("phase_complete", "a", iso_of(30)),
        ("checkpoint_created", "a", "1970-01-01T00:00:00.030500Z"),
        ("phase_start", "b", iso_of(31)),
    ]
