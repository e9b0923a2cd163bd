"""`tick`, `status` and `doctor` show the harnesses that a broker supervises."""

from collections.abc import Iterator

import pytest

from support.command_line import Shell, broker_up
from support.running import short_directory

START = {"hook_event_name": "SessionStart", "session_id": "s1", "source": "startup"}


@pytest.fixture(scope="module")
def watched() -> Iterator[Shell]:
    """A shell beside a broker that has recorded a Codex session by an installed hook."""
    with short_directory() as directory:
        shell = Shell(directory, LIFEBUS_TICKS_INTERVAL_MS="100")
        shell.call("hooks", "install", "codex", "--yes")
        with broker_up(shell):
            while not shell.call("sessions", "--json").json:  # a late call goes to the spool
                shell.hook("codex", START)
            yield shell


def test_a_tick_prints_what_it_found_and_itself(watched: Shell) -> None:
    ran = watched.call("dev", "tick", "--adapter", "codex", "--session", "s1", "--json")
    assert ran.code == 0
    receipts = [line["receipt"] for line in ran.lines]
    assert receipts[0]["event"] == "supervisor.tick"
    assert receipts[0]["harness_session_id"] == "s1"


def test_a_session_is_found_by_its_own_id_and_one_that_nobody_knows_is_refused(watched: Shell) -> None:
    found = watched.call("dev", "tick", "--session", "s1", "--json", LIFEBUS_HOST_ADAPTER="")
    assert {(line["receipt"]["adapter_id"], line["receipt"]["harness_session_id"]) for line in found.lines} == {
        ("codex", "s1")
    }
    refused = watched.call("dev", "tick", "--session", "s2", LIFEBUS_HOST_ADAPTER="")
    assert refused.code == 1
    assert "there is no session `s2`" in refused.err


def test_an_adapter_that_there_is_not_is_refused_with_each_that_there_is_once(watched: Shell) -> None:
    (line,) = [one for one in watched.call("tail", "--adapter", "nope").err.splitlines() if "known are" in one]
    known = line.partition("known are ")[2].split(", ")
    assert len(known) == len(set(known))


def test_status_has_a_line_for_each_harness(watched: Shell) -> None:
    (line,) = [line for line in watched.run("status").out.splitlines() if line.startswith("codex ")]
    assert "1 live" in line
    assert " s ago, tick " in line
    assert any("Codex does not run" in line for line in watched.run("status").out.splitlines())
    (harness,) = watched.call("status", "--json").json["harnesses"]
    assert (harness["adapter_id"], harness["sessions"], harness["silent"]) == ("codex", 1, [])


def test_doctor_counts_calls_of_hooks_whose_harness_there_is_not_and_says_which_was_meant() -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        shell.call("hooks", "install", "codex", "--yes")
        with broker_up(shell):
            assert "hook names" not in [one["check"] for one in shell.call("doctor", "--json").json]
            for name in ("clade", "clade", "x-1"):
                shell.hook(name, START)
            # A late call comes by way of the spool.
            while shell.call("status", "--json").json["counters"]["hook_unknown_adapter"] < 3:
                pass
            assert sorted(shell.call("status", "--json").json["unknown_adapters"]) == ["clade", "x-1"]
            (found,) = [one for one in shell.call("doctor", "--json").json if one["check"] == "hook names"]
    assert found["state"] == "warn"
    assert found["evidence"].startswith("3 hook calls named a harness that there is not")
    assert "`clade`" in found["evidence"]
    assert "did you mean claude?" in found["fix"]


def test_doctor_shows_what_codex_does_not_trust_and_what_the_broker_sees(watched: Shell) -> None:
    found = watched.call("doctor", "--json").json
    (hooks,) = [one for one in found if one["check"] == "hooks"]
    assert hooks["state"] == "bad"
    assert "not trusted" in hooks["evidence"]
    assert "/hooks" in hooks["fix"]
    (harness,) = [one for one in found if one["check"] == "codex"]
    assert harness["state"] == "ok"
    assert "1 live" in harness["evidence"]
