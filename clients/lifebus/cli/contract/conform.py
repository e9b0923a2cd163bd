"""`lifebus conform`: the conformance suite, on a built-in adapter or on a third party's adapter program."""

import shutil
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from lifebus.cli.arguments import UsageError, parse_seconds
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import clean, paint, put, put_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifebus_adapters.conformance import Finding


def conform(
    *adapter: Annotated[str, Parameter(allow_leading_hyphen=True)], json: bool = False, timeout: str = "5s"
) -> ExitCode:
    """Check an adapter against everything that an adapter has to fulfil; exit code 1 if it fails anywhere.

    Args:
        adapter: The id of a built-in adapter; or the command of an adapter program and its arguments, after `--` where
            they begin with a hyphen. The program is asked on its stdin and answers on its stdout (adapter-protocol.md).
        json: Answer in JSON.
        timeout: How long the program may take for each answer: 5s unless told.
    """
    findings = _examine(adapter, parse_seconds(timeout))
    if json:
        put_json(findings)
    else:
        for finding in findings:
            _show(finding)
        failed = sum(not finding.ok for finding in findings)
        put(f"{len(findings) - failed} of {len(findings)} checks passed")
    return ExitCode.OK if all(finding.ok for finding in findings) else ExitCode.NEGATIVE


def _examine(command: "Sequence[str]", seconds: float) -> "list[Finding]":
    from lifebus_adapters import ADAPTERS  # noqa: PLC0415
    from lifebus_adapters.conformance import examine  # noqa: PLC0415
    from lifebus_adapters.conformance.builtin import builtin_subject  # noqa: PLC0415
    from lifebus_admin.adapter_program import examine_program  # noqa: PLC0415

    if not command:
        raise UsageError(f"ADAPTER: name one of {', '.join(ADAPTERS)}, or the command of an adapter program")
    if len(command) == 1 and command[0] in ADAPTERS:
        return examine(builtin_subject(command[0]))
    if shutil.which(command[0]) is None:
        raise UsageError(f"`{command[0][:64]}` is no adapter ({', '.join(ADAPTERS)}) and no program")
    return examine_program(command, seconds)


def _show(finding: "Finding") -> None:
    sign = paint("ok  ", "green") if finding.ok else paint("FAIL", "red")
    put(f"{sign} {finding.name.ljust(40)} {clean(finding.evidence)}")
