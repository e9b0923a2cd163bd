"""Values of flags: lists, words with what was probably meant, times, and what a shell completes."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest

from lifebus import make_request
from lifebus.cli import choices
from lifebus.cli.arguments import parse_moment
from lifebus.cli.exit_codes import UsageError
from lifebus.cli.terminal import fitting
from support.command_line import Shell, broker_up, fork
from support.patience import PATIENCE, PATIENCE_S

NOW = datetime(2026, 11, 23, 10, 30, tzinfo=UTC).timestamp()  # a Monday, 11:30 in Berlin


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        *(("10m", "2026-11-23T10:20:00"), ("10m ago", "2026-11-23T10:20:00"), ("90s", "2026-11-23T10:28:30")),
        *(("2 hours ago", "2026-11-23T08:30:00"), ("1h30m", "2026-11-23T09:00:00"), ("24 h", "2026-11-22T10:30:00")),
        *(("10min", "2026-11-23T10:20:00"), ("1 day 2 hrs ago", "2026-11-22T08:30:00")),
        *(("1w", "2026-11-16T10:30:00"), ("2d ago", "2026-11-21T10:30:00"), ("now", "2026-11-23T10:30:00")),
        *(("today", "2026-11-22T23:00:00"), ("yesterday", "2026-11-21T23:00:00"), ("Yesterday", "2026-11-21T23:00:00")),
        *(("yesterday 18:30", "2026-11-22T17:30:00"), ("today 08:00", "2026-11-23T07:00:00")),
        *(("11:00", "2026-11-23T10:00:00"), ("12:00", "2026-11-22T11:00:00"), ("11:00:05", "2026-11-23T10:00:05")),
        *(("2026-11-21", "2026-11-20T23:00:00"), ("2026-11-21 20:00", "2026-11-21T19:00:00")),
        *(("2026-11-21T20:00:00Z", "2026-11-21T20:00:00"), ("2026-11-21T20:00+02:00", "2026-11-21T18:00:00")),
        *(("2026-07-01 12:00", "2026-07-01T10:00:00"), ("1763755200", "2025-11-21T20:00:00")),
    ],
)
def test_a_time_is_understood_in_every_form_of_the_documentation(text: str, meant: str) -> None:
    assert parse_moment(text, NOW).astimezone(UTC) == datetime.fromisoformat(meant).replace(tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "soon", "tomorrow", "25:00", "yesterday noon", "10m from now", "2026-13-01"])
def test_what_is_no_time_is_refused_with_the_forms_that_there_are(text: str) -> None:
    with pytest.raises(UsageError, match=r"--until: .* is not a time; write 10m ago, yesterday, 12:00"):
        parse_moment(text, NOW, flag="--until")


def found(shell: Shell, *words: str) -> list[tuple[str, str]]:
    ran = shell.call("receipts", "--json", *words)
    assert ran.code == 0, ran
    receipts = [line["receipt"] for line in ran.lines]
    return [(one["harness_session_id"], one["event"]) for one in receipts]


@pytest.mark.parametrize(
    "words",
    [
        ("--event", "session.started", "session.ended"),
        ("--event", "session.started,session.ended"),
        ("--event", "session.started", "--event", "session.ended"),
    ],
)
def test_several_values_have_three_forms_and_one_meaning(bus: Shell, words: tuple[str, ...]) -> None:
    wanted = [("s1", "session.started"), ("s2", "session.started"), ("s1", "session.ended")]
    assert found(bus, *words) == wanted
    assert [line["receipt"]["event"] for line in bus.call("tail", "--no-follow", "--json", *words).lines] == [
        event for _, event in wanted
    ]
    exported = bus.call("receipts", "export", *words).lines
    assert [(one["harness_session_id"], one["event"]) for one in exported] == wanted
    assert found(bus, *words, "--session", "codex/s1", "-n", "1") == [("s1", "session.ended")]
    assert len(found(bus, *words, "--session", "codex/s1", "codex/s2", "--adapter", "claude,codex")) == 3


def test_until_is_where_since_is_and_includes_its_second(bus: Shell) -> None:
    whole = [line["receipt"] for line in bus.call("receipts", "--json").lines]
    last = datetime.fromtimestamp(whole[-1]["at_epoch_s"], UTC).isoformat()
    before = datetime.fromtimestamp(whole[0]["at_epoch_s"] - 1, UTC).isoformat()
    assert len(found(bus, "--until", last)) == len(found(bus, "--until", last, "--since", "1h")) == len(whole)
    assert len(bus.call("tail", "--until", last, "--json").lines) == len(whole)
    assert [
        bus.call(*words, "--until", before).out for words in (("receipts",), ("tail",), ("receipts", "export"))
    ] == [*("", "", "")]
    assert bus.call("sessions", "--until", before, "--json").json == []


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("tail", "--adapter", "claud"), "claude"),
        (("receipts", "--adapter", "codex,claud"), "claude"),
        (("receipts", "export", "--adapter", "claud"), "claude"),
        (("sessions", "--adapter", "claud"), "claude"),
        (("app-server", "signals", "--adapter", "codx"), "codex"),
        (("dev", "tick", "--adapter", "codx"), "codex"),
        (("emit", "session.started", "--adapter", "codx"), "codex"),
        (("serve", "--event", "frame.opening", "--adapter", "codx", "--", "true"), "codex"),
        (("contract", "negotiate", "codx", "--require", "context_pressure"), "codex"),
        (("tail", "--session", "claud/s1"), "claude"),
        (("tail", "--event", "frame.opend"), "frame.opened"),
        (("receipts", "--event", "frame.opened,frame.endet"), "frame.ended"),
        (("serve", "--event", "frame.openin", "--", "true"), "frame.opening"),
        (("emit", "session.startd"), "session.started"),
        (("tail", "--status", "faild"), "failed"),
        (("flow", "list", "--status", "complete"), "completed"),
    ],
    ids=" ".join,
)
def test_a_word_that_is_none_is_refused_with_what_was_probably_meant(
    bus: Shell, words: tuple[str, ...], meant: str
) -> None:
    ran = bus.call(*words)
    assert (ran.code, ran.out) == (2, "")
    assert f"did you mean {meant}?" in ran.err


def test_an_adapter_that_only_the_broker_knows_is_one(bus: Shell, alone: Shell) -> None:
    # The broker's own adapters are in no manifest of the command's.
    assert bus.call("tail", "--no-follow", "--adapter", "flow", "lifebus").code == 0
    assert alone.call("tail", "--no-follow", "--adapter", "nobody").code == 2


def test_tail_begins_with_the_last_so_many(bus: Shell) -> None:
    whole = bus.call("tail", "--no-follow", "--json").lines
    assert bus.call("tail", "--no-follow", "--json", "-n", "2").lines == whole[-2:]
    assert bus.call("tail", "--no-follow", "--json", "-n", "0").lines == []
    started = bus.call("tail", "--no-follow", "--json", "-n", "1", "--event", "session.started").lines
    assert [one["receipt"]["harness_session_id"] for one in started] == ["s2"]
    assert bus.call("tail", "-n", "1", "--from", "start").code == 2


def test_tail_says_on_a_terminal_that_it_waits(bus: Shell) -> None:
    ours, theirs = pty.openpty()
    process = fork(["tail", "--json"], bus.environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    while b"waiting for what comes; Ctrl-C ends" not in said:
        said += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    os.close(ours)


def test_sessions_are_named_as_everywhere(alone: Shell) -> None:
    with broker_up(alone):
        alone.call("emit", "session.started", "--adapter", "codex", "--session", "a#1")
        (name,) = [one["name"] for one in alone.call("sessions", "--json").json]
        alone.call("emit", "frame.opened", "--session", name, "--frame", "f1")
        alone.call("emit", "frame.ended", "--session", "codex/a#1", "--frame", "f1")
        wrong = alone.call("emit", "frame.opened", "--adapter", "claude", "--session", name, "--frame", "f1")
        (head,) = alone.call("sessions", "--json").json
        assert alone.call("ledger", "caches", "rebuild").code == 0
        shown = alone.call("ledger", "caches", "show", name)
    assert (head["harness_session_id"], head["receipts"]) == ("a#1", 3)
    assert (wrong.code, "is a session of codex, not of claude" in wrong.err) == (2, True)
    assert (shown.code, shown.out.startswith("codex/a#1")) == (0, True)


def completed(shell: Shell, *words: str) -> list[str]:
    ran = shell.call("__complete", *words)
    assert ran.err == ""
    # What a shell reads begins behind this line.
    return [line.split("\t")[0] for line in ran.out.partition("\x1fbegin\n")[2].splitlines()]


def test_a_shell_completes_values(bus: Shell, alone: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "_PATIENCE", PATIENCE)
    assert "frame.opened" in completed(alone, "tail", "--event", "")
    assert "session.started" in completed(alone, "tail", "--event", "frame.opened", "")
    assert {"codex", "claude"} <= set(completed(alone, "sessions", "--adapter", ""))
    assert "failed" in completed(alone, "receipts", "--status", "")
    assert "context_pressure" in completed(alone, "contract", "negotiate", "codex", "--require", "")
    names = {one["name"] or f"codex/{one['harness_session_id']}" for one in bus.call("sessions", "--json").json}
    assert set(completed(bus, "tail", "--session", "")) == set(completed(bus, "sessions", "")) == names
    assert completed(alone, "tail", "--session", "") == []


def test_help_that_nobody_reads_to_its_end_ends_as_other_commands(alone: Shell) -> None:
    line = f'"{sys.executable}" -m lifebus --help | (exec 0<&-); echo "${{PIPESTATUS[0]}}"'
    ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=alone.environment, check=False)
    assert (ran.stdout.strip() in {"141", "0"}, ran.stderr) == (True, "")


@pytest.mark.parametrize(
    ("widths", "room", "fits"),
    [
        ([5, 5], 80, [5, 5]),
        ([10, 60, 20], 60, [10, 26, 20]),
        ([10, 40, 40], 60, [10, 23, 23]),
        ([40, 9, 9], 50, [40, 8, 8]),
        ([90], 50, [90]),
    ],
)
def test_the_widest_columns_of_a_table_give_way_but_never_the_first(
    widths: list[int], room: int, fits: list[int]
) -> None:
    assert fitting(widths, room) == fits


@pytest.mark.parametrize("words", [("contract", "manifest", "list"), ("contract", "events")], ids=" ".join)
def test_a_table_fits_the_terminal_and_is_whole_in_a_pipe(alone: Shell, words: tuple[str, ...]) -> None:
    whole = alone.call(*words).out.splitlines()
    shown = alone.on_terminal(*words, variables={"NO_COLOR": "1"}).out.splitlines()
    assert len(shown) == len(whole)
    assert max(map(len, shown)) <= 80 < max(map(len, whole))
    assert [line.split()[:1] for line in shown] == [line.split()[:1] for line in whole]
    assert any("…" in line for line in shown)
    assert not any("…" in line for line in whole)


@pytest.mark.parametrize("width", [40, 60, 72, 80])
@pytest.mark.parametrize(
    "words",
    [
        *(("sessions",), ("receipts", "list"), ("contract", "manifest", "list"), ("contract", "events")),
        *(("contract", "events", "frame.ended", "--facts-only"), ("tail", "--no-follow"), ("--help",)),
        *(("status",), ("sessions", "show", "codex/s1")),
        *(("tail", "--help"), ("hooks", "install", "--help"), ("ledger", "--help")),
    ],
    ids=" ".join,
)
def test_whatever_is_made_of_columns_fits_a_narrow_terminal(bus: Shell, words: tuple[str, ...], width: int) -> None:
    ran = bus.on_terminal(*words, variables={"NO_COLOR": "1", "COLUMNS": str(width)})
    shown = re.sub(r"\x1b\[\d*m", "", ran.out).splitlines()
    # A word that is longer than the terminal is left whole.
    assert [line for line in shown if len(line) > width and " " in line[10:]] == []
    whole = bus.call(*words).out
    # Nothing but notes and ends of cells is left out.
    assert set(re.findall(r"^\S+#\d+", whole, re.MULTILINE)) <= set(" ".join(shown).split())


def test_tail_follows_as_other_tails_do_where_it_is_asked_to(bus: Shell) -> None:
    with bus.started("tail", "-f", "-n", "1") as process:
        assert process.stdout is not None
        assert process.stdout.readline()


def test_sessions_of_a_folder(bus: Shell) -> None:
    emission = {
        "request": msgspec.to_builtins(make_request("session.started", "codex", session="of-a-folder")),
        "telemetry": {"cwd": "/srv/shop"},
    }
    assert bus.call("emit", "--file", "-", stdin=json.dumps(emission).encode()).code == 0
    found = {name: bus.call("sessions", "--project", name, "--json").json for name in ("sh*", "shop", "other")}
    assert {name: [one["name"] for one in heads] for name, heads in found.items()} == {
        "sh*": ["shop#1"],
        "shop": ["shop#1"],
        "other": [],
    }
    shown = bus.call("sessions", "show", "shop#1").out
    assert ("directory shop" in shown, "session   shop#1" in shown) == (True, True)
