"""`lifebus up --detach` and `lifebus down`: a broker without a terminal, ready when it is said to be, and gone too."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version

import psutil
import pytest

from support.clients.hook_box import HookBox
from support.command_line import Shell, broker_up
from support.leftovers import has_ended
from support.patience import PATIENCE


@pytest.fixture
def detaching(alone: Shell) -> Iterator[Shell]:
    """A shell whose broker in the background, if one is left, is gone at the end."""
    yield alone
    alone.call("down", "--timeout", PATIENCE)


def _events(shell: Shell) -> list[tuple[str, str]]:
    """Return session and event of every receipt, read from the file by SQLite alone."""
    with closing(sqlite3.connect(shell.directory / "state/ledger.db")) as file:
        receipts = [json.loads(body) for (body,) in file.execute("SELECT receipt FROM rows ORDER BY position")]
    return [(str(one.get("harness_session_id")), str(one["event"])) for one in receipts]


def _session_started(shell: Shell, session: str) -> None:
    """Have Claude Code's hook report the start of a session, which finds no broker."""
    call = {"hook_event_name": "SessionStart", "session_id": session, "source": "startup", "cwd": "/tmp"}
    hooks = HookBox(shell.directory)
    assert hooks.run(json.dumps(call).encode(), "claude", "SessionStart").code == 0
    assert len(hooks.spooled(1)) == 1


def test_it_is_ready_when_the_command_returns_keeps_no_terminal_and_a_restart_loses_nothing(detaching: Shell) -> None:
    # The terminal is read to its end, which does not come while anybody has it open.
    shown = detaching.on_terminal("up", "--detach")
    assert (shown.code, "lifebus is up: process" in shown.out) == (0, True)
    found = detaching.call("status", "--json").json
    process = psutil.Process(found["pid"])
    assert f"lifebus is up: process {process.pid}\x1b" in shown.out
    assert (process.terminal(), os.getsid(process.pid)) == (None, process.pid)
    assert process.cwd() == str(detaching.directory.resolve())
    assert detaching.call("emit", "session.started", "--adapter", "codex", "--session", "before").code == 0

    down = detaching.call("down")
    assert (down.code, down.out, f"process {process.pid}" in down.err) == (0, "", True)
    # Whose child it became need not have asked how it ended.
    assert has_ended(process.pid)
    again = detaching.call("down")
    assert (again.code, "nothing to stop" in again.err) == (69, True)
    _session_started(detaching, "between")

    up = detaching.run("up", "--detach", "--json")
    assert (up.code, up.err, up.json["ready"]) == (0, "", True)
    assert up.json["log"] == str(detaching.directory / "state/log/broker.log")
    assert detaching.call("emit", "session.started", "--adapter", "codex", "--session", "after").code == 0
    assert detaching.call("down", "--json").json["pid"] == up.json["pid"]
    seen = _events(detaching)
    for session in ("before", "between", "after"):
        assert (session, "session.started") in seen, session
    events = (detaching.directory / "state/log/broker.log").read_text()
    assert events.count('"event":"ready"') == 2


def test_one_that_does_not_start_says_why_with_the_end_of_its_log_and_its_exit_code(detaching: Shell) -> None:
    (detaching.directory / "state").mkdir(mode=0o700)
    (detaching.directory / "state/ledger.db").write_bytes(b"no ledger at all, but long enough to be looked at " * 100)
    ran = detaching.run("up", "--detach", "--log-level", "warning")
    assert (ran.code, ran.out) == (74, "")
    assert "did not start: it ended with exit code 74" in ran.err
    assert "ledger.db cannot be opened" in ran.err
    assert "Traceback" not in ran.err
    assert detaching.call("down").code == 69


def test_wrong_settings_and_a_second_broker_are_refused_before_anything_is_started(alone: Shell) -> None:
    wrong = alone.call("up", "--detach", "--log-level", "loud")
    assert (wrong.code, "one of debug, info, warning, error" in wrong.err) == (78, True)
    assert not (alone.directory / "state").exists()
    with broker_up(alone) as up:
        ran = alone.call("up", "--detach")
        assert (ran.code, f"process {up.process.pid}" in ran.err) == (69, True)
        assert not (alone.directory / "state/log").exists()


def test_a_broker_that_does_not_end_is_not_called_gone(alone: Shell) -> None:
    with broker_up(alone) as up:
        up.process.send_signal(signal.SIGSTOP)
        try:
            ran = alone.call("down", "--timeout", "50ms")
        finally:
            up.process.send_signal(signal.SIGCONT)
        assert (ran.code, "has not ended within 50ms" in ran.err) == (69, True)
        # The request to stop was sent, and is obeyed as soon as it can be.
        assert up.wait() == 0
    assert alone.call("down").code == 69


def test_json_is_for_detach_alone(alone: Shell) -> None:
    ran = alone.call("up", "--json")
    assert (ran.code, "--json: only with --detach" in ran.err) == (2, True)


def test_after_an_upgrade_status_and_doctor_say_that_an_older_version_runs(
    alone: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with broker_up(alone):
        same = alone.call("status")
        assert (same.code, "upgrade" in same.out) == (0, False)
        # What is installed is looked up by the command, and the broker is an older process.
        monkeypatch.setattr("lifebus_supervisor.version.VERSION", "9.9.9")
        shown = alone.call("status").out
        assert "installed is 9.9.9" in shown
        assert "`lifebus down`, then `lifebus up --detach`" in shown
        found = alone.call("status", "--json").json
        assert (found["installed_version"], found["version"]) == ("9.9.9", version("lifebus"))
        (broker,) = [one for one in alone.call("doctor", "--json").json if one["check"] == "broker"]
        assert (broker["state"], "installed is 9.9.9" in broker["evidence"]) == ("warn", True)
        assert "nothing is lost" in broker["fix"]
        # With the service installed, that is what is restarted.
        unit = alone.directory / ".config/systemd/user/lifebus.service"
        unit.parent.mkdir(parents=True)
        unit.touch()
        assert "`lifebus service restart`" in alone.call("status").out
