"""`lifebus contract conform runtime`: any runtime of Loa workflows against the checklist of their contract."""

import shutil
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from lifebus.cli.arguments import parse_seconds
from lifebus.cli.choices import Words, split_values
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import clean, paint, put, put_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifebus.loa.conformance.check import Finding

_SIGNS: Final = {"passed": ("ok  ", "green"), "failed": ("FAIL", "red"), "absent": ("none", "dim")}
_WIDTH: Final = 26


def conform_runtime(
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    check: Words = (),
    timeout: str = "10s",
    json: bool = False,
) -> ExitCode:
    """Check a runtime against the checklist of the Loa runtime contract; exit code 1 if it fails anywhere.

    The runtime is asked on its stdin and answers on its stdout (docs/runtime-conformance.md). It is killed and started
    again on the way, to see what it has kept.

    Args:
        command: The command of the runtime and its arguments, after `--` where they begin with a hyphen.
        check: Only the checks whose names begin with this, and those that they build on.
        timeout: How long the runtime may take for each answer, and until what has to happen has; the default is 10s.
        json: Answer in JSON, an object for each check.
    """
    seconds = parse_seconds(timeout)
    wanted = split_values(check)
    _require_usable(command, wanted)
    findings = _examine(command, wanted, seconds, quiet=json)
    if json:
        put_json(findings)
    else:
        # Some of the checks prove no line of the checklist.
        if not check:
            _show_checklist(findings)
        _show_count(findings)
    return (
        ExitCode.NEGATIVE if any(finding.verdict in ("failed", "not_judged") for finding in findings) else ExitCode.OK
    )


def _require_usable(command: "Sequence[str]", names: "Sequence[str]") -> None:
    from lifebus.loa.conformance.checks import CHECKS  # noqa: PLC0415

    if not command:
        raise UsageError("COMMAND: name the command of a runtime")
    # Checked here: a child that cannot start looks like one that fails every check.
    if shutil.which(command[0]) is None:
        raise UsageError(f"`{clean(command[0][:64])}` is no program")
    unknown = [name for name in names if not any(one.name.startswith(name) for one in CHECKS)]
    if unknown:
        raise UsageError(f"--check: no check begins with `{clean(unknown[0][:64])}`")


def _examine(command: "Sequence[str]", only: "Sequence[str]", seconds: float, *, quiet: bool) -> "list[Finding]":
    """Run the suite, and show each finding at once."""
    import anyio  # noqa: PLC0415

    from lifebus.loa.conformance.suite import examine  # noqa: PLC0415

    findings: list[Finding] = []

    def note(finding: "Finding") -> None:
        findings.append(finding)
        if not quiet:
            _show(finding)

    async def run() -> None:
        await examine(command, deadline_s=seconds, only=only, on_finding=note)

    anyio.run(run)
    return findings


def _show(finding: "Finding") -> None:
    sign, color = _SIGNS.get(finding.verdict.value, ("?   ", "yellow"))
    put(f"{paint(sign, color)} {finding.check.ljust(_WIDTH)} {clean(finding.evidence)}")


def _show_checklist(findings: "Sequence[Finding]") -> None:
    """Print the contract's own checklist with a mark at each line whose checks all passed."""
    from lifebus.loa.conformance.suite import checklist  # noqa: PLC0415

    shown = ""
    for level, item, done in checklist(findings):
        if level.value != shown:
            shown = level.value
            put("")
            put(paint(shown.capitalize(), "bold"))
        put(f"  [{'x' if done else ' '}] {item}")
    put("")


def _show_count(findings: "Sequence[Finding]") -> None:
    passed = sum(finding.verdict.value == "passed" for finding in findings)
    absent = sum(finding.verdict.value == "absent" for finding in findings)
    without = f"; left out, because the runtime does without: {absent}" if absent else ""
    put(f"{passed} of {len(findings)} checks passed{without}")
