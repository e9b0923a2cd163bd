"""`lifebus service`: written as shown, started by the user's manager, restarted without a loss, gone afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clients.hook_box import HookBox
from support.command_line import Ran, Shell
from support.patience import PATIENCE
from support.running import short_directory
from support.service_manager import put_manager, told


class Serviced:
    """A home with a service manager on its PATH, and nothing else."""

    def __init__(self, home: Path, manager: str) -> None:
        self.home = home
        self.programs = home.parent / f"{home.name}-bin"
        self.program = put_manager(self.programs, manager)
        self.shell = Shell(home, PATH=str(self.programs))

    def service(self, *words: str) -> Ran:
        return self.shell.call("service", *words)

    @property
    def files(self) -> set[str]:
        """Everything in the home but lifebus's own state and sockets."""
        found = (path.relative_to(self.home) for path in self.home.rglob("*"))
        return {str(path) for path in found if path.parts[0] not in {"state", "run"}}


@pytest.fixture(params=["systemctl", "launchctl"])
def serviced(request: pytest.FixtureRequest) -> Iterator[Serviced]:
    with short_directory() as top:
        (top / "home").mkdir(mode=0o700)
        here = Serviced(top / "home", request.param)
        try:
            yield here
        finally:
            here.shell.call("down", "--timeout", PATIENCE)


def test_the_whole_life_of_a_service(serviced: Serviced) -> None:
    shell = serviced.shell
    assert serviced.files == set()
    done = serviced.service("install", "--yes")
    assert (done.code, "the service runs: process" in done.err) == (0, True), done
    assert "ExecStart" in done.out or "ProgramArguments" in done.out
    # Clients and hooks of this shell find the broker, though nothing of the shell's was passed on to it.
    first = shell.call("status", "--json").json
    assert shell.call("emit", "session.started", "--adapter", "codex", "--session", "before").code == 0
    found = serviced.service("status", "--json")
    assert (found.code, found.json["broker"]["pid"]) == (0, first["pid"]), found.out
    assert found.json["state"]["at_login"] is True
    assert found.json["state"]["pid"] == first["pid"]
    assert Path(found.json["log"]).read_text().count('"event":"ready"') == 1

    # In between, nobody runs: a hook's call waits, and the restart takes it in.
    assert shell.call("down").code == 0
    assert serviced.service("status").code == 1
    hooks = HookBox(serviced.home)
    call = b'{"hook_event_name":"SessionStart","session_id":"between","source":"startup","cwd":"/tmp"}'
    assert hooks.run(call, "claude", "SessionStart").code == 0
    assert len(hooks.spooled(1)) == 1
    again = serviced.service("restart", "--json")
    assert again.code == 0, again
    assert again.json["broker"]["pid"] not in {None, first["pid"]}
    sessions = {one["harness_session_id"] for one in shell.call("sessions", "--json").json}
    assert {"before", "between"} <= sessions

    gone = serviced.service("remove", "--yes")
    assert (gone.code, "removed" in gone.err) == (0, True), gone
    assert serviced.files == set()
    assert shell.call("status").code == 69
    assert "nothing to remove" in serviced.service("remove").err


def test_the_plan_is_shown_and_nothing_is_done_without_a_yes(serviced: Serviced) -> None:
    for words in (("install", "--dry-run"), ("install",)):
        ran = serviced.service(*words)
        assert ran.code == (0 if "--dry-run" in words else 2)
        assert "(no file)" in ran.out
        assert "at every login, and again after a failure" in ran.out
    answered = serviced.shell.on_terminal("service", "install", types=b"n\n")
    assert (answered.code, "nothing was changed" in answered.out) == (1, True)
    plan = serviced.service("install", "--dry-run", "--json").json
    assert (plan["done"], [one["action"] for one in plan["files"]]) == (False, ["create"])
    assert serviced.files == set()
    asked = {words[0] for words in told(serviced.program)}
    assert asked <= {"--user", "print"}
    assert not {"enable", "restart", "daemon-reload"} & {word for words in told(serviced.program) for word in words}


def test_a_file_that_was_edited_is_neither_written_over_nor_removed(serviced: Serviced) -> None:
    path = Path(serviced.service("install", "--dry-run", "--json").json["files"][0]["path"])
    path.parent.mkdir(parents=True)
    path.write_text("somebody else's\n")
    ran = serviced.service("install", "--yes")
    assert (ran.code, "another file stands there, or ours was edited" in ran.err) == (1, True)
    assert path.read_text() == "somebody else's\n"


@pytest.mark.parametrize("serviced", ["systemctl"], indirect=True)
def test_a_start_that_a_person_asks_for_is_not_counted_with_the_failures(serviced: Serviced) -> None:
    """Under a real systemd (tests/e2e/test_systemd.py) the eleventh restart in five minutes was refused."""
    assert serviced.service("install", "--yes").code == 0
    assert serviced.service("restart").code == 0
    verbs = [words[1] for words in told(serviced.program)]
    assert verbs.count("restart") == 2
    assert all(verbs[at - 1] == "reset-failed" for at, verb in enumerate(verbs) if verb == "restart")


@pytest.mark.parametrize("kind", ["none", "silent"])
def test_without_a_service_manager_it_says_what_to_do(alone: Shell, tmp_path: Path, kind: str) -> None:
    if kind == "silent":
        program = tmp_path / "systemctl"
        program.write_text("#!/bin/sh\necho 'Failed to connect to bus: No medium found' >&2\nexit 1\n")
        program.chmod(0o700)
    for verb in ("install", "status", "restart", "remove"):
        ran = alone.call("service", verb, PATH=str(tmp_path))
        assert (ran.code, ran.out) == (1, "")
        assert "`lifebus up --detach`" in ran.err
        assert ("No medium found" in ran.err) == (kind == "silent")
        # What is wrong, and in a line of its own what to do.
        assert [line.startswith("  ") for line in ran.err.splitlines()] == [False, True]


def test_a_restart_of_what_is_not_installed_is_refused(serviced: Serviced) -> None:
    ran = serviced.service("restart")
    assert (ran.code, "lifebus service install" in ran.err) == (1, True)
    assert serviced.service("status").code == 1


@pytest.mark.parametrize("serviced", ["systemctl"], indirect=True)
def test_installing_hooks_offers_the_service_where_no_broker_runs(serviced: Serviced) -> None:
    shell = serviced.shell
    # Yes to the hooks, no to the service; then yes to everything: hooks, offer, plan.
    declined = shell.on_terminal("hooks", "install", "claude", types=b"y\nn\n")
    assert (declined.code, "No broker runs. Have it run now, and at every login? [y/N]" in declined.out) == (0, True)
    assert "next:\x1b[0m Start the broker: lifebus up" in declined.out
    assert serviced.service("status").code == 1
    assert shell.call("hooks", "remove", "--yes").code == 0
    plain = shell.call("hooks", "install", "claude", "--yes")
    assert "lifebus service install" in plain.out
    assert "No broker runs" not in plain.out
    assert shell.call("hooks", "remove", "--yes").code == 0
    ran = shell.on_terminal("hooks", "install", "claude", types=b"y\ny\ny\n")
    assert (ran.code, "the service runs: process" in ran.out) == (0, True), ran.out
    assert shell.call("status").code == 0
    assert shell.call("hooks", "remove", "--yes").code == 0
    again = shell.call("hooks", "install", "claude", "--yes").out
    assert "next: Try every hook: lifebus hooks test." in again
