"""Steps that are prompts to harnesses: their commands, and what the harness says of its end."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio.to_thread
from msgspec import Struct, structs

from lifebus_adapters import ADAPTERS, ALIASES
from lifebus_adapters.shared.one_shot import OneShot, OneShotReport
from lifebus_contract import InvalidRequest
from lifebus_contract.flows import CodeMap, FlowDefinition, HarnessPrompt, Outcome, OutcomeKind, StepDefinition
from lifebus_supervisor.runtime.output_files import file_of
from lifebus_supervisor.runtime.step_process import StepEnd
from lifebus_transports.processes.redaction import redact, secrets_in

_READ: Final = 4 * 1_048_576
"""Bytes that are read of the beginning of an output, and of its end."""


class PromptEnd(Struct, frozen=True, kw_only=True):
    """How a prompt ended: by its exit code and by what the harness says; `session` names the harness's session."""

    outcome: Outcome
    report: OneShotReport
    session: tuple[str, str] | None = None


def resolve_prompts(definition: FlowDefinition) -> FlowDefinition:
    """Return a flow as it is run: where a step is a prompt, its harness's own codes and variables are filled in.

    A step's own codes stay.  The adapter gets its proper name where an alias stands.

    Raises:
        InvalidRequest: there is no such harness, or lifebus knows no one-shot mode of it.
    """
    steps = tuple(
        step if step.prompt is None else _resolved(step, step.prompt, f"$.steps[{place}].prompt.adapter_id")
        for place, step in enumerate(definition.steps)
    )
    return structs.replace(definition, steps=steps)


def _resolved(step: StepDefinition, prompt: HarnessPrompt, field: str) -> StepDefinition:
    adapter_id = ALIASES.get(prompt.adapter_id, prompt.adapter_id)
    one_shot = _find(adapter_id)
    if one_shot is None:
        known = ", ".join(name for name, harness in ADAPTERS.items() if harness.one_shot is not None)
        detail = f"`{adapter_id[:64]}` is no harness with a one-shot mode that lifebus knows; there are {known}"
        raise InvalidRequest(detail, code="unknown_adapter", field=field)
    return structs.replace(
        step,
        prompt=structs.replace(prompt, adapter_id=adapter_id),
        codes=one_shot.codes if step.codes is None else step.codes,
        passing=tuple(dict.fromkeys((*step.passing, *one_shot.variables))),
    )


def prompt_command(prompt: HarnessPrompt, run_id: str, step_id: str, number: int) -> tuple[str, ...]:
    """Return what is run for a prompt of a resolved flow, in the try of that number.

    Raises:
        InvalidRequest: this version knows no one-shot mode of the harness.
    """
    one_shot = _find(prompt.adapter_id)
    if one_shot is None:  # the run was made by another version
        detail = f"this version knows no one-shot mode of `{prompt.adapter_id[:64]}`"
        raise InvalidRequest(detail, code="unknown_adapter", field="$.prompt.adapter_id")
    # Harnesses allow few characters in an id that they are given.
    fresh = hashlib.sha256(json.dumps([run_id, step_id, number]).encode()).hexdigest()[:32]
    return one_shot.command(prompt, f"lifebus-{fresh}")


async def prompt_end(prompt: HarnessPrompt, end: StepEnd, output: Path, environment: Mapping[str, str]) -> PromptEnd:
    """Return how a prompt ended; `output` is that of its try.

    A harness may end with 0 and say that it failed: that is no good end.
    """
    one_shot = _find(prompt.adapter_id)
    if one_shot is None or end.outcome.kind is OutcomeKind.CANNOT_START:
        return PromptEnd(outcome=end.outcome, report=OneShotReport())
    report = await anyio.to_thread.run_sync(_read, one_shot, output)
    session = None if report.session_id is None else (prompt.adapter_id, report.session_id)
    outcome = judged(
        _own_code(end.outcome, one_shot.codes), report, redact(report.message, secrets_in(environment), (prompt.text,))
    )
    return PromptEnd(outcome=_unsaid(outcome, report, end.output_fault), report=report, session=session)


def judged(outcome: Outcome, report: OneShotReport, message: str) -> Outcome:
    """Return an outcome with what the harness says of it; `message` is its reason, fit to be kept."""
    if outcome.kind is OutcomeKind.EXITED and outcome.code == 0 and report.failed:
        detail = f"the harness says that it failed: {message or 'without a reason'}"
        return structs.replace(outcome, kind=OutcomeKind.UNVERIFIED, detail=detail)
    return structs.replace(outcome, detail=message) if message and not outcome.detail else outcome


def _unsaid(outcome: Outcome, report: OneShotReport, output_fault: str) -> Outcome:
    """Return an outcome that is no good one where the harness may have said that it failed, and that was not kept."""
    if outcome.kind is OutcomeKind.EXITED and outcome.code == 0 and report.failed is None and output_fault:
        detail = f"what the harness said of its end could not be kept: {output_fault}"
        return structs.replace(outcome, kind=OutcomeKind.UNVERIFIED, detail=detail)
    return outcome


def _own_code(outcome: Outcome, codes: CodeMap) -> Outcome:
    """Return an outcome in which a code that the harness's rules name stands for no signal, though it is over 128."""
    if outcome.kind is not OutcomeKind.SIGNALLED or outcome.code is None:
        return outcome
    is_named = any(rule.first <= outcome.code <= rule.last for rule in codes.rules)
    return Outcome(kind=OutcomeKind.EXITED, code=outcome.code) if is_named else outcome


def _find(adapter_id: str) -> OneShot | None:
    harness = ADAPTERS.get(adapter_id)
    return None if harness is None else harness.one_shot


def _read(one_shot: OneShot, output: Path) -> OneShotReport:
    return one_shot.read(*ends_of_output(output))


def ends_of_output(output: Path) -> tuple[bytes, bytes]:
    """Return what is read of stdout and stderr: the beginning and the end of each, all of a short one; blocks."""
    return _ends_of(file_of(output, "stdout")), _ends_of(file_of(output, "stderr"))


def _ends_of(path: Path) -> bytes:
    """Return the beginning and the end of a file, all of a short one; nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            first = file.read(_READ)
            size = file.seek(0, 2)
            if size <= _READ:
                return first
            file.seek(max(_READ, size - _READ))
            return first + file.read(_READ)
    except OSError:
        return b""
