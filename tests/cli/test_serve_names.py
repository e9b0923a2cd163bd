"""What `lifebus serve` makes of its command before anybody is asked: a program that runs, and a name of its own."""

import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from lifebus.cli.bus.programs import name_of_program, require_program
from support.command_line import Shell, broker_up
from support.fork_server import Process

_SERVE = ("serve", "--event", "frame.opening")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("./nope",), "there is no program ./nope"),
        (("no-such-program",), "there is no program `no-such-program` on the PATH; a file here is called ./no-such"),
        (("/etc",), "/etc cannot be run"),
        (("/etc/passwd",), "/etc/passwd cannot be run; `chmod +x` it"),
        ((sys.executable, "./nope.py"), "there is no file ./nope.py"),
        (("sh", "nope.sh"), "there is no file nope.sh"),
    ],
)
def test_a_command_that_cannot_serve_is_refused_at_the_start(alone: Shell, command: tuple[str, ...], said: str) -> None:
    # There is no broker: what is wrong with the command is said before one is looked for.
    ran = alone.call(*_SERVE, "--", *command)
    assert (ran.code, ran.out, said in ran.err) == (2, "", True), ran.err


def _ready(process: Process) -> str:
    """Return the name under which it serves, once it does."""
    assert process.stderr is not None
    line = process.stderr.readline().decode()
    assert line.startswith("serving as ")
    return line.removeprefix("serving as ").partition(";")[0]


def test_two_scripts_of_one_file_name_serve_side_by_side(alone: Shell) -> None:
    scripts = [alone.directory / folder / "client.py" for folder in ("one", "two")]
    for script in scripts:
        script.parent.mkdir()
        script.write_text("import sys; sys.stdin.read()")
    with broker_up(alone), ExitStack() as stack:
        serving = [
            stack.enter_context(alone.started(*_SERVE, "--", sys.executable, str(script), stdin=subprocess.DEVNULL))
            for script in scripts
        ]
        names = [_ready(process) for process in serving]
        assert len(set(names)) == 2
        assert all(name.startswith("client.py-") for name in names)
        found = alone.call("clients", "--json")
        assert {one["client_id"] for one in found.json} == set(names)
        # The same script again has the same name, and takes the place of itself.
        again = stack.enter_context(alone.started(*_SERVE, "--", sys.executable, str(scripts[0])))
        assert _ready(again) == names[0]
        for process in (*serving, again):
            process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("./client",), "client"),
        (("/opt/bin/notes", "--fast"), "notes"),
        (("python3.12", "-m", "tools.notify"), "tools.notify"),
    ],
)
def test_a_name_comes_from_the_command(command: tuple[str, ...], name: str) -> None:
    assert name_of_program(command) == name


def test_commands_without_a_file_differ_by_their_text() -> None:
    commands = [("sh", "-c", "cat"), ("sh", "-c", "tac"), ("node", "--eval", "1"), ("python", "-c", "x" * 100_000)]
    names = [name_of_program(command) for command in commands]
    assert len(set(names)) == len(commands)
    assert names == [name_of_program(command) for command in commands]
    assert names[0].startswith("sh-")


@pytest.mark.parametrize(
    "command",
    [
        ("sh", "-c", "cat /no/such"),
        ("bash", "-lc", "cd /no/such"),
        ("env", "A=/no/such", "cat"),
        ("env", "-S", "a/b c"),
    ],
)
def test_what_only_looks_like_a_missing_file_is_not_refused(command: tuple[str, ...]) -> None:
    require_program(command)


def test_a_name_depends_on_where_the_file_is_and_not_on_how_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notify.py").touch()
    monkeypatch.chdir(tmp_path)
    full = name_of_program(("python3", "-W", "error", str(tmp_path / "notify.py"), "-v"))
    assert full == name_of_program(("env", "python", "./notify.py"))
    assert full.startswith("notify.py-")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notify.py").touch()
    assert name_of_program(("python3", "other/notify.py")) != full
