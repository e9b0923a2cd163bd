"""Commands that have to be quick load no library, not even the slow half of Python's own."""

import subprocess
import sys
from unittest import mock

import pytest

from lifebus.cli.admin import kept_checks
from support.command_line import Shell

SLOW = {"msgspec", "typing", "zmq", "cyclopts", "json", "re", "enum", "dataclasses", "pathlib", "subprocess", "socket"}
SLOW |= {"lifebus_adapters", "lifebus_contract", "lifebus_broker", "lifebus_transports.messages", "asyncio", "anyio"}

_RUN = """
import sys
from lifebus.cli import run
sys.stdout.isatty = lambda: {terminal}
code = run({words!r})
sys.stderr.write(" ".join(sorted(set(sys.modules) & {slow!r})))
sys.exit(code)
"""

EMIT = ("emit", "session.started", "--adapter", "codex", "--session", "s1")
STATUS = ("status",)


def loaded(shell: Shell, words: tuple[str, ...], *, terminal: bool) -> tuple[str, str]:
    """Return what a command printed and which slow modules it loaded, without those of the environment's own start."""
    code = _RUN.format(terminal=terminal, words=words, slow=SLOW)
    # Without `site`, which loads whatever is installed beside us.
    command = [sys.executable, "-S", "-c", code]
    environment = {**shell.environment, "PYTHONPATH": ":".join(path for path in sys.path if path)}
    ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return ran.stdout, ran.stderr


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    "words",
    [EMIT, (*EMIT, "--json"), (*EMIT, "--timeout", "5s"), STATUS, ("status", "--json"), ("status", "--timeout", "5s")],
)
def test_a_quick_command_loads_no_library(bus: Shell, words: tuple[str, ...], terminal: bool) -> None:
    with mock.patch.object(kept_checks, "_SETTLED_NS", 0):
        bus.call("status")  # whatever was not kept
    out, slow = loaded(bus, words, terminal=terminal)
    assert slow == ""
    assert "lifeloop.v0.2" in out or "session.started" in out


def test_what_is_measured_is_noticed(bus: Shell) -> None:
    _, slow = loaded(bus, ("status", "--"), terminal=False)
    assert {"msgspec", "zmq", "cyclopts", "typing", "lifebus_contract"} <= set(slow.split())
