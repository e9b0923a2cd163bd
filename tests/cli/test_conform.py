"""`lifebus contract conform`: a readable list, JSON for programs, and an exit code that says it all."""

import sys

import pytest

from support.command_line import Shell
from support.paths import EXAMPLES

EXAMPLE = EXAMPLES / "adapter" / "program.py"


@pytest.mark.parametrize("adapter", ["codex", "claude", "gemini", "opencode", "hermes", "openclaw"])
def test_a_built_in_adapter_passes(alone: Shell, adapter: str) -> None:
    ran = alone.call("contract", "conform", adapter)
    assert (ran.code, ran.err) == (0, "")
    *lines, last = ran.out.splitlines()
    assert last == f"{len(lines)} of {len(lines)} checks passed"
    assert all(line.startswith("ok ") for line in lines)


@pytest.mark.parametrize("separator", [(), ("--",)])
def test_a_program_that_passes_is_reported_so(alone: Shell, separator: tuple[str, ...]) -> None:
    ran = alone.call("contract", "conform", "--json", *separator, sys.executable, str(EXAMPLE))
    assert ran.code == 0
    assert all(finding["ok"] and finding["evidence"] for finding in ran.json)


def test_a_program_that_talks_nonsense_is_a_failure_and_no_crash(alone: Shell) -> None:
    ran = alone.call("contract", "conform", "--", sys.executable, "-c", "print('\\x1b[31mhello')")
    assert ran.code == 1
    assert ran.out.splitlines()[-1] == "0 of 1 checks passed"
    assert "\x1b" not in ran.out


@pytest.mark.parametrize("arguments", [(), ("no-such-adapter",), ("codx",)])
def test_what_is_neither_adapter_nor_program_is_a_question_of_usage(alone: Shell, arguments: tuple[str, ...]) -> None:
    ran = alone.call("contract", "conform", *arguments)
    assert ran.code == 2
    assert "codex" in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "codex"),
        (("tiny",), "codex"),
        (("codex", "claude"), "codex"),
        (("codex", "--scenario", "holiday"), "plain_turn"),
        (("codex", "--program", "/no/such/program"), "/no/such/program"),
    ],
)
def test_a_live_check_names_a_harness_that_is_here(alone: Shell, arguments: tuple[str, ...], words: str) -> None:
    ran = alone.call("contract", "conform", "--live", *arguments)
    assert ran.code == 2
    assert words in ran.err


def test_a_scenario_that_a_harness_cannot_play_is_shown_with_its_reason(alone: Shell) -> None:
    named = ("--program", sys.executable, "--scenario", "untrusted_hooks")
    ran = alone.call("contract", "conform", "--live", "claude", *named)
    assert (ran.code, ran.err) == (0, "")
    assert "it runs the hooks of the user's own settings without asking" in ran.out
    (cell,) = alone.call("contract", "conform", "--live", "claude", *named, "--json").json["cells"]
    assert (cell["ok"], cell["recorded"], bool(cell["cannot"])) == (True, [], True)
