"""What every command has in common: colour, help, versions, exit codes, completions, and no traceback ever."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from itertools import chain

import pytest

from lifebus.cli.command_table import COMMANDS
from lifebus.cli.errors import explain
from lifebus.cli.exit_codes import ExitCode, exit_code_of
from lifebus_contract import FailureClass, error_for
from support.command_line import Shell, broker_up
from support.paths import DOCS, REPOSITORY


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
    ],
)
def test_colour_on_a_terminal(alone: Shell, variables: dict[str, str], coloured: bool) -> None:
    assert ("\x1b[" in alone.on_terminal("contract", "manifest", "list", variables=variables).out) is coloured


def test_colour_in_a_pipe_only_when_forced(alone: Shell) -> None:
    assert "\x1b" not in alone.call("contract", "manifest", "list").out
    assert "\x1b[" in alone.call("contract", "manifest", "list", FORCE_COLOR="1").out
    assert "\x1b" not in alone.call("contract", "validate", "request", stdin=b"{}").out


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help_without_boxes_in_a_pipe(alone: Shell, command: str) -> None:
    ran = alone.call(*command.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Usage: lifebus")
    assert not set("│─╭╰┃━") & set(ran.out)


def test_the_help_lists_every_command(alone: Shell) -> None:
    words = alone.call("--help").out
    assert all(re.search(rf"\b{name}\b", words) for name in COMMANDS)


def test_help_alone_imports_no_command(alone: Shell) -> None:
    code = "import sys; from lifebus.cli import run; run(['--help']); print({'zmq', 'apsw'} & set(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=alone.environment
    )
    assert ran.stdout.splitlines()[-1] == "set()"


def test_version_names_package_contract_and_libraries(alone: Shell) -> None:
    assert "lifeloop.v0.2" in alone.call("version").out
    assert set(alone.call("version", "--json").json) == {"lifebus", "contract", "python", "sqlite", "zeromq"}
    assert alone.call("--version").out.strip() == alone.call("version", "--json").json["lifebus"]


def version_of(name: str) -> str:
    """Return the version of a library; one of an extra need not be there."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def test_version_all_names_every_dependency_and_the_broker(alone: Shell) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    installed = {name: version_of(name) for name in (one.partition(">=")[0].lower() for one in wanted)}
    lonely = alone.call("version", "--all", "--json").json
    assert lonely["dependencies"] == installed
    assert lonely["broker"] == {"lacking": f"no broker at {alone.directory}/run; start one with `lifebus up`"}
    with broker_up(alone) as up:
        found = alone.call("version", "--all", "--json").json["broker"]
        shown = dict(line.split(maxsplit=1) for line in alone.call("version", "--all").out.splitlines())
        (libraries,) = [one for one in alone.call("doctor", "--json").json if one["check"] == "libraries"]
    assert (found["lifebus"], found["pid"]) == (lonely["lifebus"], up.process.pid)
    assert shown.items() >= (installed | {name: lonely[name] for name in ("python", "sqlite", "zeromq")}).items()
    assert shown["broker"].endswith(f"pid {up.process.pid}")
    assert [name for name, version in installed.items() if f"{name} {version}" not in libraries["evidence"]] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_name_the_commands(alone: Shell, shell: str) -> None:
    script = alone.call("completions", shell).out
    assert all(name in script for name in COMMANDS)


def test_every_failure_class_has_an_exit_code_of_the_table() -> None:
    codes = {failure: exit_code_of(error_for(failure, "x")) for failure in FailureClass}
    assert codes[FailureClass.INVALID_REQUEST] is ExitCode.BAD_DATA
    assert codes[FailureClass.TRANSPORT_ERROR] is ExitCode.UNAVAILABLE
    assert codes[FailureClass.CAPABILITY_UNSUPPORTED] is ExitCode.NEGATIVE
    assert set(codes.values()) <= set(ExitCode)


def test_a_defect_is_reported_in_a_sentence_with_exit_code_70() -> None:
    code, lines = explain(ExceptionGroup("g", [ExceptionGroup("h", [RuntimeError("boom")])]))
    assert code is ExitCode.SOFTWARE
    assert lines[0] == "a defect of lifebus: RuntimeError: boom"


def test_hostile_text_in_an_error_cannot_steer_the_terminal(alone: Shell) -> None:
    ran = alone.call("contract", "validate", "re\x1b[2Jquest")
    assert ran.code == 2
    assert "\x1b" not in ran.err


@pytest.mark.parametrize(("closed", "code"), [("<&-", 0), (">&-", 0), ("2>&-", 0), (">/dev/full", 74)])
def test_streams_that_are_closed_or_full_are_no_defect(alone: Shell, closed: str, code: int) -> None:
    script = f'"{sys.executable}" -m lifebus contract events {closed}'
    ran = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, env=alone.environment, check=False)
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr
    assert "Exception ignored" not in ran.stderr


def test_the_exit_codes_are_in_the_documentation() -> None:
    text = (DOCS / "command-line.md").read_text()
    firsts = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    table = {one.strip() for first in firsts for one in first.split(",")}  # a row may be about several
    assert {str(int(code)) for code in ExitCode} <= table
