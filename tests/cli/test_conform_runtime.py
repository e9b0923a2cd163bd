"""`lifebus contract conform runtime`: a line a check, the contract's checklist, JSON for programs, and exit codes."""

import pytest

from support.command_line import Shell
from support.loa.plain_runtime import PLAIN, SMALL

SOME = ("--check", "checkpoint.w", "--check", "costs.total")


def test_a_runtime_that_passes_is_reported_line_by_line(alone: Shell) -> None:
    ran = alone.call("contract", "conform", "runtime", *SOME, "--", *PLAIN)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert [line.split()[:2] for line in lines[:4]] == [
        ["ok", "protocol.initialize"],
        ["ok", "checkpoint.write"],
        ["ok", "checkpoint.words"],
        ["ok", "costs.total"],
    ]
    assert not any("[" in line for line in lines)  # the checklist is for who runs all of them
    assert lines[-1] == "4 of 4 checks passed"


def test_the_whole_suite_ends_with_the_contracts_checklist(alone: Shell) -> None:
    ran = alone.call("contract", "conform", "runtime", "--", *PLAIN, "costs.total")
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert [line for line in lines if line.startswith("  [ ]")] == ["  [ ] Cost tracking implemented"]
    assert sum(line.startswith("  [x]") for line in lines) == 15
    assert [line.split()[1] for line in lines if line.startswith("FAIL")] == ["costs.total"]


def test_what_fails_is_an_exit_code_and_what_was_seen(alone: Shell) -> None:
    ran = alone.call("contract", "conform", "runtime", "--json", *SOME, "--", *PLAIN, "costs.total")
    assert ran.code == 1
    assert [finding["verdict"] for finding in ran.json] == ["passed", "passed", "passed", "failed"]
    assert "0.30000000000000004" in ran.json[-1]["evidence"]


def test_what_a_runtime_does_without_is_counted_apart(alone: Shell) -> None:
    ran = alone.call("contract", "conform", "runtime", *SOME, "--", *PLAIN, SMALL)
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "3 of 4 checks passed; left out, because the runtime does without: 1"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name the command"),
        (("no-such-program",), "`no-such-program` is no program"),
        (("--check", "nonsense", "--", *PLAIN), "no check begins with `nonsense`"),
    ],
)
def test_what_cannot_be_examined_is_a_question_of_usage(alone: Shell, arguments: tuple[str, ...], said: str) -> None:
    ran = alone.call("contract", "conform", "runtime", *arguments)
    assert ran.code == 2
    assert said in ran.err
