"""`lifebus sessions close` and `forget`, as users type them."""

from collections.abc import Iterator

import pytest

from support.command_line import Shell, broker_up
from support.running import short_directory


@pytest.fixture(scope="module")
def bus() -> Iterator[Shell]:
    """A broker with two open sessions."""
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            for session in ("closing", "staying"):
                assert shell.call("emit", "session.started", "--session", session, "--adapter", "codex").code == 0
            yield shell


def listed(shell: Shell, *flags: str) -> dict[str, bool]:
    """The sessions that are listed, and whether each has ended."""
    return {one["harness_session_id"]: one["ended"] for one in shell.call("sessions", "--json", *flags).json}


def test_a_session_is_closed_and_then_forgotten(bus: Shell) -> None:
    refused = bus.call("sessions", "forget", "codex/closing", "--yes")
    assert (refused.code, "lifebus sessions close" in refused.err) == (1, True)
    closed = bus.call("sessions", "close", "codex/closing", "--json")
    assert closed.code == 0
    assert [one["receipt"]["telemetry_summary"]["session_end"] for one in closed.lines] == ["closed"]
    assert listed(bus) == {"closing": True, "staying": False}
    again = bus.call("sessions", "close", "codex/closing")
    assert (again.code, "has ended already" in again.err) == (1, True)

    asked = bus.call("sessions", "forget", "codex/closing")
    assert (asked.code, "--yes" in asked.err) == (2, True)
    assert listed(bus) == {"closing": True, "staying": False}
    assert bus.call("sessions", "forget", "codex/closing", "--yes").code == 0
    assert listed(bus) == {"staying": False}
    assert listed(bus, "--forgotten") == {"closing": True, "staying": False}
    assert "forgotten" in bus.call("sessions", "codex/closing").out
    repeated = bus.call("sessions", "forget", "codex/closing", "--yes")
    assert (repeated.code, repeated.out, "it was forgotten before" in repeated.err) == (0, "", True)


@pytest.mark.parametrize("verb", [("close",), ("forget", "--yes")])
def test_a_session_that_there_is_not_is_refused(bus: Shell, verb: tuple[str, ...]) -> None:
    ran = bus.call("sessions", *verb, "codex/nowhere")
    assert (ran.code, "no such session" in ran.err) == (1, True)
    assert bus.call("sessions", *verb, "nowhere").code == 1
