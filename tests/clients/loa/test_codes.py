"""The exit code table against the contract's own words and the sysexits.h that Python knows."""

import os

import pytest

from lifebus.loa.codes import CODES
from lifebus_contract.flows import CodeRule, StepVerdict


def _rule_of(code: int) -> CodeRule | None:
    return next((rule for rule in CODES.rules if rule.first <= code <= rule.last), None)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (0, StepVerdict.PROCEED),
        (1, StepVerdict.RETRY),
        (2, StepVerdict.ESCALATE),
        *((code, StepVerdict.RETRY) for code in range(64, 79)),
        (126, StepVerdict.ALERT),
        (127, StepVerdict.ALERT),
    ],
)
def test_each_code_that_the_contract_names_has_its_verdict(code: int, verdict: StepVerdict) -> None:
    rule = _rule_of(code)
    assert rule is not None
    assert rule.verdict is verdict


def test_no_other_code_has_a_rule_and_such_codes_ask_somebody() -> None:
    named = {0, 1, 2, *range(64, 79), 126, 127}
    assert {code for code in range(256) if _rule_of(code) is not None} == named
    assert CODES.unknown is StepVerdict.ESCALATE


def test_the_codes_64_to_78_have_the_names_of_sysexits() -> None:
    known = {getattr(os, name): name for name in dir(os) if name.startswith("EX_") and name != "EX_OK"}
    for code in range(64, 79):
        rule = _rule_of(code)
        assert rule is not None
        assert rule.label == known[code]


def test_signals_and_time_limits_are_tried_again_and_what_cannot_start_alerts() -> None:
    assert (CODES.signalled, CODES.timed_out) == (StepVerdict.RETRY, StepVerdict.RETRY)
    assert CODES.cannot_start is StepVerdict.ALERT
