"""What a command loads before it does anything, for that is most of the time that it takes."""

import re
import socket
import subprocess
import sys
import tomllib

import pytest

from lifebus.cli.first_screen import WIDEST_LINE
from lifebus_supervisor.version import VERSION
from support.command_line import Shell, broker_up
from support.paths import REPOSITORY
from support.patience import PATIENCE_S

HEAVY = ("anyio", "asyncio", "cyclopts", "dataclasses", "msgspec", "re", "rich", "shutil", "structlog", "typing", "zmq")
RUN = """
import sys
before = set(sys.modules)
from lifebus.cli import run
run({words})
sys.stderr.write(" ".join(set(sys.modules) - before))
"""
BROKER = """
import atexit, sys
atexit.register(lambda: sys.stderr.write(" ".join(sys.modules)))
from lifebus.cli import run
run(["up", "--log-level", "error", *{words}])
"""
NOT_IN_A_BROKER = {
    *("attr", "cyclopts", "email", "html", "lifebus_admin", "multiprocessing", "packaging", "pygments", "rich"),
    *("sqlite3", "uvicorn", "watchfiles", "yaml", "zipfile"),
}
"""What a broker does without as long as no harness, no extension and no setting asks for it."""

NOT_YET_IN_A_BROKER = {
    "lifebus_supervisor.daemon.command_clients",
    "lifebus_supervisor.renewal.composing",
    "lifebus_supervisor.tailing.database",
    "lifebus_transports.processes.warm",
}


def loaded_by(program: str, shell: Shell) -> set[str]:
    """Return the top packages that a new interpreter loads for a program beyond its own."""
    command = [sys.executable, "-I", "-c", program]
    done = subprocess.run(command, env=shell.environment, capture_output=True, check=True, timeout=PATIENCE_S)
    return {name.partition(".")[0] for name in done.stderr.decode().split()}


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_the_first_screen_loads_no_library_and_no_parser(alone: Shell, words: list[str]) -> None:
    found = loaded_by(RUN.format(words=words), alone)
    assert "lifebus" in found
    assert found & set(HEAVY) == set()


def test_a_command_loads_no_colours_of_tracebacks(alone: Shell) -> None:
    assert {"rich", "pygments"} & loaded_by(RUN.format(words=["status"]), alone) == set()


def test_an_event_of_a_built_in_adapter_waits_for_no_adapter_to_load(alone: Shell) -> None:
    words = ["emit", "session.started", "--adapter", "codex", "--session", "s1"]
    found = loaded_by(RUN.format(words=words), alone)
    assert "zmq" in found
    assert "lifebus_adapters" not in found


def test_the_status_waits_for_no_parser_no_event_loop_and_no_settings(alone: Shell) -> None:
    with broker_up(alone):
        found = loaded_by(RUN.format(words=["status"]), alone)
    assert "lifebus_admin" in found
    assert {"anyio", "asyncio", "cyclopts", "structlog", "zmq"} & found == set()


def test_an_event_by_plain_flags_waits_for_no_library(alone: Shell) -> None:
    words = ["emit", "session.started", "--adapter", "codex", "--session", "s1"]
    with broker_up(alone):
        found = loaded_by(RUN.format(words=words), alone)
    assert "_json" in found
    assert found & {*HEAVY, "json"} == set()


@pytest.mark.parametrize("words", [[], ["--log-format=json"]])
def test_a_broker_has_loaded_only_what_it_runs(alone: Shell, words: list[str]) -> None:
    command = [sys.executable, "-I", "-c", BROKER.format(words=words)]
    address = alone.directory / "ready.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
        ready.bind(str(address))
        ready.settimeout(PATIENCE_S)
        environment = {**alone.environment, "NOTIFY_SOCKET": str(address)}
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert ready.recv(64).startswith(b"READY=1")
            finally:
                process.terminate()
            loaded = process.communicate(timeout=PATIENCE_S)[1].split()
    assert process.returncode == 0
    assert "lifebus_supervisor.supervision.supervisor" in loaded
    assert {name.partition(".")[0] for name in loaded} & NOT_IN_A_BROKER == set()
    assert NOT_YET_IN_A_BROKER & set(loaded) == set()


@pytest.mark.parametrize("width", [30, 40, 80, 99, 100, 200])
def test_the_first_screen_is_what_its_parser_would_show(alone: Shell, width: int) -> None:
    quick = alone.call("--help", COLUMNS=str(width)).out
    found = subprocess.run(
        [sys.executable, "-c", "from lifebus.cli.app import make_app; make_app()(['--help'])"],
        env={**alone.environment, "COLUMNS": str(width)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert quick == found.stdout
    assert max(map(len, quick.splitlines())) <= max(width, WIDEST_LINE)


def test_the_first_screen_has_its_head_bold_where_that_is_wanted(alone: Shell) -> None:
    assert alone.call("--help", FORCE_COLOR="1").out.startswith("\x1b[1mUsage: lifebus COMMAND\x1b[0m\n")
    assert "\x1b" not in alone.call("--help", FORCE_COLOR="1", NO_COLOR="1").out


def test_the_version_in_the_code_is_that_of_the_distribution() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)
