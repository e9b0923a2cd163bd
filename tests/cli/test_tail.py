"""`lifebus tail`: every receipt once, from where it is asked, as long as somebody reads."""

import json
import os
import signal

import pytest

from support.command_line import Shell, broker_up
from support.patience import PATIENCE_S


def events(ran_lines: list[dict[str, dict[str, str]]]) -> list[str]:
    return [line["receipt"]["event"] for line in ran_lines]


def test_it_reads_from_the_start_and_ends_at_the_newest(bus: Shell) -> None:
    ran = bus.call("tail", "--no-follow", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert events(ran.lines) == ["session.started", "frame.opened", "session.started", "session.ended"]


def test_a_cursor_that_it_printed_is_where_it_goes_on(bus: Shell) -> None:
    cursor = bus.call("tail", "--no-follow", "--json").lines[1]["cursor"]
    assert events(bus.call("tail", "--no-follow", "--json", "--from", cursor).lines) == [
        "session.started",
        "session.ended",
    ]
    assert len(bus.call("tail", "--no-follow", "--json", "--from", "3").lines) == 1


def test_a_cursor_of_another_history_is_an_explicit_gap(bus: Shell) -> None:
    ran = bus.call("tail", "--no-follow", "--json", "--from", "00000000000000000000000000000000:2")
    assert ran.lines[0]["gap"]["reason"] == "epoch_changed"
    assert len(ran.lines) == 5


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (("--session", "codex/s1"), 3),
        (("--adapter", "codex"), 4),
        (("--adapter", "claude"), 0),
        (("--event", "session.started"), 2),
        (("--status", "degraded"), 1),
        (("--since", "1h"), 4),
        (("--since", "2000-01-01T00:00:00Z", "--status", "failed"), 1),
        (("--session", "codex/s1", "--event", "session.started"), 1),
        (("--session", "codex/none"), 0),
    ],
)
def test_filters_let_through_what_they_say(bus: Shell, filters: tuple[str, ...], count: int) -> None:
    ran = bus.call("tail", "--no-follow", "--json", *filters)
    assert (ran.code, len(ran.lines)) == (0, count)


def test_in_a_pipe_a_line_has_the_whole_ids_and_named_extras(bus: Shell) -> None:
    lines = bus.call("tail", "--no-follow").out.splitlines()
    assert " codex/s1 1 session.started observed client=lifebus-cli receipt=lfr_" in lines[0]
    assert "degraded=placement:pre_frame_leading" in lines[1]
    assert "failure=capability_unsupported" in lines[2]


def test_on_a_terminal_there_are_columns_that_fit(bus: Shell) -> None:
    ran = bus.on_terminal("tail", "--no-follow", variables={"NO_COLOR": "1"})
    lines = ran.out.replace("\r\n", "\n").splitlines()
    assert lines[0].split() == ["time", "session", "seq", "event", "status", "note"]
    assert len(lines) == 5
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b" not in ran.out


def test_it_follows_what_comes_and_ends_with_130_on_ctrl_c(alone: Shell) -> None:
    with broker_up(alone), alone.started("tail", "--from", "start", "--json", smoke=True) as process:
        alone.call("emit", "session.started", "--adapter", "codex", "--session", "new")
        assert process.stdout is not None
        line = json.loads(process.stdout.readline())
        assert line["receipt"]["harness_session_id"] == "new"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_reader_that_goes_away_ends_it_quietly_even_while_nothing_comes(alone: Shell) -> None:
    with broker_up(alone), alone.started("tail", "--from", "start", "--json", smoke=True) as process:
        alone.call("emit", "session.started", "--adapter", "codex")
        assert process.stdout is not None
        process.stdout.readline()  # it is following now
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""
        process.stdout = None


@pytest.mark.parametrize(
    "arguments", [("tail", "--no-follow", "--json"), ("receipts", "export"), ("contract", "schema", "receipt")]
)
def test_a_closed_pipe_is_no_error_message(bus: Shell, arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with bus.started(*arguments, stdout=writing) as process:
        os.close(writing)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 141
    assert errors == b""


@pytest.mark.parametrize(
    "arguments",
    [
        ("--from", "tomorrow"),
        ("--from", "-3"),
        ("--from", "99999999999999999999"),
        ("--since", "soon"),
        ("--since", "99999999999999999999"),
        ("--from", "1", "--since", "1h"),
        ("--session", "codex"),
        ("--event", "session.startd"),
        ("--status", "fine"),
        ("--timeout", "never"),
        ("--nonsense",),
        ("surplus",),
    ],
)
def test_what_cannot_be_understood_is_a_usage_error(bus: Shell, arguments: tuple[str, ...]) -> None:
    ran = bus.call("tail", "--no-follow", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("lifebus: ")
    assert "Traceback" not in ran.err
