"""The exit codes of the Loa runtime contract, as data (docs/runtime-conformance.md).  Pure."""

from typing import Final

from lifebus_contract.flows import CodeMap, CodeRule, StepVerdict

SYSEXITS: Final = (
    "EX_USAGE",
    "EX_DATAERR",
    "EX_NOINPUT",
    "EX_NOUSER",
    "EX_NOHOST",
    "EX_UNAVAILABLE",
    "EX_SOFTWARE",
    "EX_OSERR",
    "EX_OSFILE",
    "EX_CANTCREAT",
    "EX_IOERR",
    "EX_TEMPFAIL",
    "EX_PROTOCOL",
    "EX_NOPERM",
    "EX_CONFIG",
)
"""The names of the codes 64 to 78 in sysexits.h, in their order."""

_FIRST_SYSEXIT: Final = 64


def _rule(code: int, verdict: StepVerdict, label: str) -> CodeRule:
    return CodeRule(first=code, last=code, verdict=verdict, label=label)


CODES: Final = CodeMap(
    rules=(
        _rule(0, StepVerdict.PROCEED, "success"),
        _rule(1, StepVerdict.RETRY, "failure"),
        _rule(2, StepVerdict.ESCALATE, "blocked"),
        *(_rule(code, StepVerdict.RETRY, name) for code, name in enumerate(SYSEXITS, _FIRST_SYSEXIT)),
        _rule(126, StepVerdict.ALERT, "not executable"),
        _rule(127, StepVerdict.ALERT, "not found"),
    ),
    # Codes that the contract does not name: its later text says to warn and to ask somebody.
    unknown=StepVerdict.ESCALATE,
    signalled=StepVerdict.RETRY,
    timed_out=StepVerdict.RETRY,
    cannot_start=StepVerdict.ALERT,
    unverified=StepVerdict.RETRY,
)
"""What the end of a phase means: 0 goes on, 1 and 64 to 78 are tried again, 2 asks somebody at once.

126 and 127 alert whoever looks after the configuration.  A phase that a signal ended (a code of 128+n counts as one) or
that ran out of its time is tried again.
"""
