"""`lifebus doctor`: every check says what it looked at, what it found, and how to mend it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import clean, paint, put, put_json

if TYPE_CHECKING:
    from lifebus.cli.admin.findings import Finding

_SIGNS = {"ok": ("ok  ", "green"), "warn": ("note", "yellow"), "bad": ("BAD ", "red")}


def doctor(
    *, json: bool = False, config: Annotated[Path | None, Parameter(env_var="LIFEBUS_CONFIG")] = None
) -> ExitCode:
    """Check libraries, settings, directories, hook, broker, ledger, stream and harnesses; exit code 1 if one is bad.

    Args:
        json: Answer in JSON.
        config: The configuration file.
    """
    from lifebus.cli.admin.doctor_checks import examine  # noqa: PLC0415

    findings = examine(config)
    if json:
        put_json(findings)
    else:
        for finding in findings:
            _show(finding)
    return ExitCode.NEGATIVE if any(one.state == "bad" for one in findings) else ExitCode.OK


def _show(finding: "Finding") -> None:
    sign, color = _SIGNS[finding.state]
    put(f"{paint(sign, color)} {finding.check.ljust(12)} {clean(finding.evidence)}")
    if finding.fix:
        put(f"     {''.ljust(12)} {paint('fix:', 'bold')} {clean(finding.fix)}")
