"""What the end of a target means: 0 is done, everything else fails; nothing is tried again.  Pure."""

from typing import Final

from lifebus_contract.flows import CodeMap, CodeRule, StepVerdict

CODES: Final = CodeMap(
    rules=(
        CodeRule(first=0, last=0, verdict=StepVerdict.PROCEED, label="done"),
        CodeRule(first=1, last=255, verdict=StepVerdict.ESCALATE, label="failed"),
    ),
    signalled=StepVerdict.ESCALATE,
    timed_out=StepVerdict.ESCALATE,
    cannot_start=StepVerdict.ESCALATE,
    unverified=StepVerdict.ESCALATE,
)
"""The map; targets end the run where a person would be asked (`OnFailure.ABORT`)."""
