"""Prompts as steps: resolved before they run, and a harness that says that it failed has not ended well."""

import os
import re
import sys
from pathlib import Path

import msgspec
import pytest

from lifebus_contract import InvalidRequest
from lifebus_contract.flows import (
    CodeMap,
    FlowDefinition,
    HarnessPrompt,
    OutcomeKind,
    StepDefinition,
    StepVerdict,
)
from lifebus_contract.runs import RunStatus
from lifebus_supervisor.runtime.prompts import PromptEnd, prompt_command, prompt_end, resolve_prompts
from support.flows import AT_ONCE, until_over
from support.parts import flows_of
from support.running import running_bus
from support.supervisor.steps import run, step

OWN = CodeMap(unknown=StepVerdict.RETRY)


def flow(*steps: StepDefinition) -> FlowDefinition:
    return FlowDefinition(name="f", client_id="c", root="/", steps=steps)


def asking(adapter_id: str, codes: CodeMap | None = None) -> StepDefinition:
    prompt = HarnessPrompt(adapter_id=adapter_id, text="Do it.")
    return StepDefinition(step_id="s", prompt=prompt, codes=codes, passing=("MINE", "HERMES_*"))


def test_a_prompt_gets_the_codes_and_variables_of_its_harness_and_a_command_nothing() -> None:
    plain = StepDefinition(step_id="plain", command=("true",))
    first, second = resolve_prompts(flow(asking("hermes-agent"), plain)).steps
    assert first.prompt == HarnessPrompt(adapter_id="hermes", text="Do it.")
    assert first.codes is not None
    assert {rule.first: rule.verdict for rule in first.codes.rules}[2] is StepVerdict.ALERT
    assert first.passing[:2] == ("MINE", "HERMES_*")
    assert first.passing.count("HERMES_*") == 1
    assert "OPENAI_*" in first.passing
    assert second == plain
    assert resolve_prompts(flow(asking("codex", OWN))).steps[0].codes == OWN


@pytest.mark.parametrize("adapter_id", ["nobody", "openclaws"])
def test_a_harness_that_is_not_known_is_refused_with_its_place(adapter_id: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        resolve_prompts(flow(StepDefinition(step_id="a", command=("true",)), asking(adapter_id)))
    assert (refused.value.code, refused.value.field) == ("unknown_adapter", "$.steps[1].prompt.adapter_id")
    assert adapter_id in refused.value.detail
    assert "codex" in refused.value.detail


REPORT = (
    '{{"failed": {failed}, "session_id": "s-1", "api_calls": 3, "input_tokens": 10, "output_tokens": 2, '
    '"failure": null}}'
)
HERMES = """#!{python} -IS
import sys
words = sys.argv[1:]
assert words[-1] == "--oneshot=Do it.", words
open(words[words.index("--usage-file") + 1], "w").write({report!r})
print("the model said no: Do it." if {code} or "true" in {report!r} else "done")
sys.exit({code})
"""


async def hermes(folder: Path, code: int, failed: str) -> PromptEnd:
    """Run a program that reports as Hermes does."""
    program = folder / "hermes"
    program.write_text(HERMES.format(python=sys.executable, report=REPORT.format(failed=failed), code=code))
    program.chmod(0o755)
    (asked,) = resolve_prompts(flow(asking("hermes"))).steps
    assert asked.prompt is not None
    environment = {"PATH": f"{folder}:{os.defpath}"}
    command = step(folder, *prompt_command(asked.prompt, "r", "s", 1), environment=environment)
    return await prompt_end(asked.prompt, await run(command), command.output, command.environment)


async def test_a_good_end_names_the_session_and_what_was_used(tmp_path: Path) -> None:
    end = await hermes(tmp_path, 0, "false")
    assert (end.outcome.kind, end.outcome.code, end.session) == (OutcomeKind.EXITED, 0, ("hermes", "s-1"))
    assert (end.report.calls, end.report.tokens and end.report.tokens.input_tokens) == (3, 10)


async def test_an_exit_code_of_0_is_no_good_end_where_the_harness_says_that_it_failed(tmp_path: Path) -> None:
    end = await hermes(tmp_path, 0, "true")
    assert (end.outcome.kind, end.outcome.code, end.session) == (OutcomeKind.UNVERIFIED, 0, ("hermes", "s-1"))
    # Never a word of the prompt: details go into receipts.
    assert end.outcome.detail == "the harness says that it failed: the model said no: [redacted]"


@pytest.mark.parametrize(("fault", "kind"), [("", OutcomeKind.EXITED), ("disk full", OutcomeKind.UNVERIFIED)])
async def test_an_exit_code_of_0_is_no_good_end_where_what_the_harness_said_could_not_be_kept(
    tmp_path: Path, fault: str, kind: OutcomeKind
) -> None:
    (asked,) = resolve_prompts(flow(asking("hermes"))).steps
    assert asked.prompt is not None
    command = step(tmp_path, "true")
    end = msgspec.structs.replace(await run(command), output_fault=fault)
    found = await prompt_end(asked.prompt, end, command.output, command.environment)
    assert (found.outcome.kind, found.outcome.code) == (kind, 0)
    assert fault in found.outcome.detail


async def test_a_bad_exit_code_stays_and_gets_the_reason(tmp_path: Path) -> None:
    end = await hermes(tmp_path, 1, "true")
    assert (end.outcome.kind, end.outcome.code) == (OutcomeKind.EXITED, 1)
    assert end.outcome.detail == "the model said no: [redacted]"


async def test_a_code_that_the_harness_means_by_itself_stands_for_no_signal(tmp_path: Path) -> None:
    program = tmp_path / "gemini"
    program.write_text(
        '#!/bin/sh\necho \'{"type": "result", "status": "error", "error": {"message": "no"}}\'\nexit $CODE\n'
    )
    program.chmod(0o755)
    (asked,) = resolve_prompts(flow(asking("gemini"))).steps
    assert asked.prompt is not None
    ends = []
    for code in ("145", "143"):  # an HTTP status of 401; SIGTERM below a shell
        environment = {"PATH": f"{tmp_path}:{os.defpath}", "CODE": code}
        command = step(tmp_path, *prompt_command(asked.prompt, "r", "s", 1), environment=environment)
        end = await prompt_end(asked.prompt, await run(command), command.output, command.environment)
        ends.append((end.outcome.kind, end.outcome.code, end.outcome.signal, end.outcome.detail))
    assert ends == [(OutcomeKind.EXITED, 145, None, "no"), (OutcomeKind.SIGNALLED, 143, 15, "SIGTERM")]


async def test_a_harness_that_is_not_installed_cannot_start(tmp_path: Path) -> None:
    (asked,) = resolve_prompts(flow(asking("hermes"))).steps
    assert asked.prompt is not None
    command = step(tmp_path, *prompt_command(asked.prompt, "r", "s", 1), environment={"PATH": str(tmp_path)})
    end = await prompt_end(asked.prompt, await run(command), command.output, command.environment)
    assert (end.outcome.kind, end.outcome.code, end.session) == (OutcomeKind.CANNOT_START, 127, None)
    assert "`hermes`" in end.outcome.detail


def test_each_try_of_a_harness_that_is_given_its_session_has_one_of_its_own() -> None:
    prompt = HarnessPrompt(adapter_id="openclaw", text="x")
    tries = [("r", "s", 1), ("r", "s", 2), ("r", "s2", 1), ("r2", "s", 1), ("r", "s", 1)]
    commands = [prompt_command(prompt, *one) for one in tries]
    assert len(set(commands)) == 4
    assert commands[0] == commands[4]
    assert all(re.fullmatch(r"lifebus-[0-9a-f]{32}", one[one.index("--session-id") + 1]) for one in commands)
    with pytest.raises(InvalidRequest):
        prompt_command(HarnessPrompt(adapter_id="nobody", text="x"), "r", "s", 1)


TURNS = """#!/bin/sh
if [ -e ../failed ]; then failed=false; else failed=true; touch ../failed; fi
echo "{\\"failed\\": $failed, \\"session_id\\": \\"s-1\\"}" >"$2"
"""
"""As Hermes: the report goes where the second word says; the first turn fails, and all end with 0."""


async def test_a_run_with_a_prompt_tries_again_until_the_harness_says_that_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "root").mkdir()
    program = tmp_path / "hermes"
    program.write_text(TURNS)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    asked = msgspec.structs.replace(asking("hermes-agent"), pause=AT_ONCE)
    definition = msgspec.structs.replace(flow(asked), root=str(tmp_path / "root"))
    async with running_bus(whole=True) as daemon:
        with pytest.raises(InvalidRequest):
            await flows_of(daemon).runs.submit(flow(asking("nobody")), by="me")
        info = await until_over(flows_of(daemon).runs, (await flows_of(daemon).runs.submit(definition, by="me")).run_id)
    assert info.status is RunStatus.COMPLETED
    first, second = info.steps[0].tries
    assert first.outcome is not None
    assert second.outcome is not None
    assert (first.outcome.kind, second.outcome.kind) == (OutcomeKind.UNVERIFIED, OutcomeKind.EXITED)
    assert first.session == second.session == ("hermes", "s-1")
