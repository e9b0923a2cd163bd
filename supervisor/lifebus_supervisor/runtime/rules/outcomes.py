"""What the end of a try means: the rules for codes, given as data, applied to how it ended.  Pure."""

from typing import Final

from msgspec import Struct

from lifebus_contract.flows import CodeMap, FlowDefinition, Outcome, OutcomeKind, StepDefinition, StepVerdict

_NO_VERDICT: Final = frozenset({OutcomeKind.INTERRUPTED, OutcomeKind.ABORTED})
"""Ends that say nothing about the step: whoever ran it stopped it, or was stopped."""


class Judgement(Struct, frozen=True):
    """What follows from an outcome; `verdict` is None where the outcome says nothing about the step.

    `label` is the name that the rule has for the code.  `unknown_code` marks a code that no rule names.
    """

    verdict: StepVerdict | None
    label: str | None = None
    unknown_code: bool = False


def judge(outcome: Outcome, step: StepDefinition, flow: FlowDefinition) -> Judgement:
    """Return what follows from how a try ended.

    A rule that names the raw code decides, also where the code stands for a signal (128+n); the step's own rules come
    before the flow's.  What no rule names is decided by the step's own map, or by the flow's where it has none.
    """
    if outcome.kind in _NO_VERDICT:
        return Judgement(None)
    own = flow.codes if step.codes is None else step.codes
    if outcome.kind is OutcomeKind.UNVERIFIED:
        return Judgement(own.unverified)
    for rule in (*own.rules, *flow.codes.rules):
        if outcome.code is not None and rule.first <= outcome.code <= rule.last:
            return Judgement(rule.verdict, rule.label)
    return _unnamed(outcome.kind, own)


def _unnamed(kind: OutcomeKind, rules: CodeMap) -> Judgement:
    if kind is OutcomeKind.SIGNALLED:
        return Judgement(rules.signalled)
    if kind is OutcomeKind.TIMED_OUT:
        return Judgement(rules.timed_out)
    if kind is OutcomeKind.CANNOT_START:
        return Judgement(rules.cannot_start)
    return Judgement(rules.unknown, unknown_code=True)
