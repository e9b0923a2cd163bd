"""`lifebus flow check`: what is wrong with a flow file, or what it would do."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import clean, paint, put, put_table, put_whole_json, say
from lifebus.flows.durations import duration_text
from lifebus.flows.faults import FlowFileError
from lifebus.flows.reading import read_flow

if TYPE_CHECKING:
    from lifebus_contract.flows import CodeMap, FlowDefinition, StepDefinition


def check(file: Path, /, *, root: Path | None = None, json: bool = False) -> ExitCode:
    """Check a flow file and show what it would do; exit code 1 if something is wrong.  Works without a broker.

    Args:
        file: The flow file.
        root: Another root than the one in the file.
        json: Answer in JSON.
    """
    try:
        flow = load_flow(file, root)
    except FlowFileError as fault:
        if json:
            put_whole_json({"valid": False, "file": str(file), "faults": fault.faults, "warnings": []})
        else:
            for one in fault.faults:
                put(clean(one.explain(str(file))))
            count = len(fault.faults)
            say(f"{count} {'mistake' if count == 1 else 'mistakes'}; docs/flows.md has every key", color="red")
        return ExitCode.NEGATIVE
    warnings = list(_warnings(flow))
    if json:
        put_whole_json({"valid": True, "file": str(file), "faults": [], "warnings": warnings, "flow": flow})
        return ExitCode.OK
    _explain(flow)
    say_warnings(file, flow)
    return ExitCode.OK


def say_warnings(file: Path, flow: "FlowDefinition") -> None:
    """Say what is probably wrong; whoever runs the flow may have another PATH, so that nothing is refused for it."""
    for warning in _warnings(flow):
        say(f"{file}: {warning}", color="yellow")


def load_flow(file: Path, root: Path | None, client_id: str = "flow") -> "FlowDefinition":
    """Return the flow of a file.

    Raises:
        FlowFileError: it has mistakes.
        OSError: it cannot be read.
    """
    from lifebus_adapters import ADAPTERS  # noqa: PLC0415  they take a while to load

    return read_flow(file, client_id=client_id, root=root, harnesses=ADAPTERS)


def _explain(flow: "FlowDefinition") -> None:
    count = len(flow.steps)
    beside = f"at most {flow.max_parallel} at once" if flow.max_parallel > 1 else "one at a time"
    put(f"{paint('valid', 'green')}: {clean(flow.name)}, {count} {'phase' if count == 1 else 'phases'}, {beside}")
    put(f"{paint('root', 'dim')}  {clean(flow.root)}")
    budget = _budget_text(flow)
    if budget:
        put(f"{paint('asks before', 'dim')}  {budget}")
    put_table(
        ("phase", "needs", "does", "tries", "limit", "codes"),
        [
            (
                one.step_id,
                ", ".join(one.needs) or "-",
                _action_text(one),
                str(one.max_retries + 1),
                duration_text(one.time_limit_ms) if one.time_limit_ms is not None else "-",
                _codes_text(one.codes or flow.codes),
            )
            for one in flow.steps
        ],
    )


def _action_text(step: "StepDefinition") -> str:
    asked = "asks, then " if step.approval is not None else ""
    if step.prompt is not None:
        return f"{asked}{step.prompt.adapter_id}: {_short(step.prompt.text)}"
    match step.command:
        case ("/bin/sh", "-ec", script):
            return f"{asked}{_short(script)}"
        case command:
            return f"{asked}{_short(' '.join(command or ()))}"


def _codes_text(codes: "CodeMap") -> str:
    """Return what goes on and what is tried again; everything else asks a person."""
    found: dict[str, list[str]] = {}
    for rule in codes.rules:
        span = str(rule.first) if rule.first == rule.last else f"{rule.first}-{rule.last}"
        found.setdefault(rule.verdict.value, []).append(span)
    parts = [f"{word} {','.join(_joined(found[word]))}" for word in ("proceed", "retry") if word in found]
    return "; ".join(parts) or "-"


def _joined(spans: list[str]) -> list[str]:
    """Return codes with neighbours as one range."""
    numbers = sorted({int(part) for span in spans for part in _numbers(span)})
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    return [str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in ranges]


def _numbers(span: str) -> range:
    first, _, last = span.partition("-")
    return range(int(first), int(last or first) + 1)


def _budget_text(flow: "FlowDefinition") -> str:
    budget = flow.budget
    return ", ".join(
        part
        for part in (
            "" if budget.time_ms is None else duration_text(budget.time_ms),
            "" if budget.tokens is None else f"{budget.tokens:,} tokens",
            "" if budget.cost_micros is None else f"${budget.cost_micros / 1_000_000:.2f}",
        )
        if part
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else f"{line[:39]}…"  # noqa: PLR2004  a column


def _warnings(flow: "FlowDefinition") -> Iterator[str]:
    """Yield what is probably wrong on this machine."""
    if not Path(flow.root).is_dir():
        yield f"root: {flow.root} is no directory"
        return
    for step in flow.steps:
        place = Path(flow.root, step.cwd)
        if not place.is_dir():
            yield f"phase `{step.step_id}`: its `cwd` {place} is no directory yet"
        elif missing := _missing(_program_of(step), place, step.setting.get("PATH")):
            yield f"phase `{step.step_id}`: {missing}"


def _program_of(step: "StepDefinition") -> str:
    """Return the program that a phase starts: its own, or that of its harness."""
    if step.prompt is None:
        return (step.command or ("",))[0]
    from lifebus_adapters import ADAPTERS  # noqa: PLC0415  they take a while to load

    one_shot = ADAPTERS[step.prompt.adapter_id].one_shot
    return "" if one_shot is None else one_shot.words[0]


def _missing(program: str, cwd: Path, search: str | None) -> str | None:
    """Return what keeps a program from being started; None where nothing does."""
    if not program:
        return None
    if "/" not in program:
        return None if shutil.which(program, path=search) else f"there is no program `{program}` on the path"
    path = cwd / program
    if not path.exists():
        return f"{path} does not exist yet"
    return None if os.access(path, os.X_OK) and path.is_file() else f"{path} is not executable: chmod +x"
