"""`lifebus top` on a real terminal beside a real broker: what stands on the screen, and that the terminal gets back."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib import resources

import anyio
import psutil
import pytest

import lifebus
from lifebus.demo.replay import load_recordings, sessions_of
from support.command_line import Shell, broker_up
from support.inbox.questions import question
from support.patience import PATIENCE_S
from support.running import short_directory
from support.top_terminal import ENTER, LEAVE, TopTerminal, top_on_terminal

RECORDINGS = load_recordings()


def feed(shell: Shell) -> None:
    """Call the hook as the recorded harnesses did, without their pauses."""
    script = str(resources.files("lifebus").joinpath("hook.py"))
    for recording in RECORDINGS:
        for step in recording.steps:
            words = [sys.executable, "-I", "-S", script, recording.adapter]
            subprocess.run(words, input=bytes(step.stdin), env=shell.environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def fed() -> Iterator[Shell]:
    """A shell beside a broker to which recorded sessions of three harnesses were told."""
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            feed(shell)
            while len(shell.call("sessions", "--json").json) < len(sessions_of(RECORDINGS)):
                pass
            yield shell


def fills(top: TopTerminal, height: int, _: str) -> bool:
    """Whether head and foot stand on the first and the last line."""
    return top.lines[0].startswith(" lifebus ") and top.lines[height - 1].startswith("enter look")


def emit(shell: Shell, session: str, event: str = "session.started") -> None:
    assert shell.call("emit", event, "--adapter", "codex", "--session", session).code == 0


def name_of(shell: Shell, session: str) -> str:
    """Return the short name of a session."""
    found = shell.call("sessions", f"codex/{session}", "--json").json
    return str(found[0]["name"])


def test_one_screen_of_80_by_24_has_sessions_and_receipts(fed: Shell) -> None:
    with top_on_terminal(fed) as top:
        text = top.until_shown("session", "harness", "pressure", "time", "event", "q quit")
        assert " lifebus " in top.lines[0]
        assert all(len(line) <= 80 for line in text.split("\n"))
        top.type("e")
        top.until(lambda text: all(adapter in text for adapter in ("codex", "claude", "gemini")))
        top.type("q")
        assert top.ended() == 0


def test_what_happens_is_shown_as_it_happens(fed: Shell) -> None:
    with top_on_terminal(fed) as top:
        top.until_shown("q quit")
        emit(fed, "live-1")
        # In the list, under its short name, and among the receipts.
        name = name_of(fed, "live-1")
        top.until(lambda text: text.count(name) == 2)
        top.type("/codex\r")
        top.until_shown("[codex]")
        top.type("\r")
        top.until_shown("codex/", "frames open", "last sign of life")
        top.type("\x1b")
        top.until_shown("enter look")
        top.type("r")
        top.until_shown("up, down scroll")
        top.type("?")
        top.until_shown("select a session or a question")
        top.type("q")
        assert top.ended() == 0


def test_consumers_are_shown_with_their_lag(fed: Shell) -> None:
    async def attach() -> None:
        async with (
            lifebus.connect("watcher", runtime_dir=fed.directory / "run") as bus,
            bus.consume("archive", since="start") as deliveries,
        ):
            await deliveries.__anext__()

    anyio.run(attach)
    with top_on_terminal(fed) as top:
        top.until_shown("q quit")
        top.type("c")
        top.until_shown("archive", "lag", "dead", "away")
        top.type("q")
        assert top.ended() == 0


def test_a_question_is_answered_on_the_screen(fed: Shell) -> None:
    async def ask() -> None:
        async with lifebus.connect("asker", runtime_dir=fed.directory / "run") as bus:
            await bus.inbox.ask(question("q_top"))

    anyio.run(ask)
    with top_on_terminal(fed) as top:
        top.until_shown("inbox 1")
        top.type("i")
        top.until_shown("audit is blocked")
        top.type("\r")
        text = top.until_shown("the credentials have expired", "retry")
        number = next(line.split()[0] for line in text.split("\n") if line.split()[1:] == ["retry"])
        top.type(number)
        top.until_shown("answer `retry`?")
        top.type("y")
        top.until_shown("answered: retry", "no question waits")
        top.type("q")
        assert top.ended() == 0
    given = fed.call("inbox", "show", "q_top", "--json").json["answer"]
    assert (given["action"], given["channel"]) == ("retry", "top")


def test_a_paused_screen_misses_nothing(fed: Shell) -> None:
    with top_on_terminal(fed) as top:
        top.until_shown("q quit")
        top.type("rp")
        before = top.until_shown("PAUSED", "up, down scroll")
        emit(fed, "paused-1")
        top.type("?")
        top.until_shown("select a session")
        top.type("r")
        assert top.until_shown("up, down scroll", "event").split("\n")[1:] == before.split("\n")[1:]
        top.type("p")
        top.until(lambda text: text.split("\n")[1:] != before.split("\n")[1:] and "PAUSED" not in text)


def test_the_screen_follows_the_size_of_the_terminal(fed: Shell) -> None:
    with top_on_terminal(fed) as top:
        top.until_shown("q quit")
        for columns, lines in ((120, 40), (40, 10), (80, 24)):
            top.resize(columns, lines)
            top.until(partial(fills, top, lines))
        assert "title" not in top.text


def test_without_colour_there_is_none(fed: Shell) -> None:
    with top_on_terminal(fed, NO_COLOR="1") as top:
        top.until_shown("q quit")
        emit(fed, "plain-1")
        top.until_shown(name_of(fed, "plain-1"))
        colors = {cell.fg for row in top.screen.buffer.values() for cell in row.values()}
        assert colors == {"default"}
        top.type("q")
        assert top.ended() == 0


def test_only_changes_are_written_and_in_one_update(fed: Shell) -> None:
    with top_on_terminal(fed) as top:
        top.until_shown("q quit")
        top.type("c")
        top.until_shown("/ filter  esc back")
        before = len(top.raw)
        top.type("i")
        top.until_shown("enter open")
        # Both are short lists: nowhere near the 1,920 cells of the screen.
        assert len(top.raw) - before < 1_000
        assert top.raw.count(b"\x1b[?2026h") == top.raw.count(b"\x1b[?2026l") > 0
        # It is cleared once, at the beginning.
        assert top.raw[top.raw.index(b"\x1b[?2026l") :].count(b"\x1b[2J") == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str
)
def test_a_signal_gives_the_terminal_back(fed: Shell, number: signal.Signals, code: int) -> None:
    with top_on_terminal(fed) as top:
        top.until_shown("q quit")
        assert top.settings != top.before
        assert top.raw.startswith(ENTER)
        top.process.send_signal(number)
        assert top.ended() == code
        assert top.settings == top.before
        assert top.raw.endswith(LEAVE)
        assert not top.screen.cursor.hidden


def test_who_stops_reading_holds_nothing_up_and_gets_the_newest_screen(fed: Shell) -> None:
    with top_on_terminal(fed, "--max-rate", "1000000") as top:
        top.until_shown("q quit")
        top.type("r")
        top.until_shown("up, down scroll")
        # Nobody reads: the terminal's buffer fills up, and the program goes on.
        for number in range(40):
            emit(fed, f"unread-{number}")
            top.resize(80 - number % 2, 24)
        last = fed.call("sessions", "--json").json[-1]["name"]
        top.resize(80, 24)
        top.until_shown(last)
        top.type("q")
        assert top.ended() == 0
        assert top.settings == top.before


def test_the_end_of_a_program_whose_terminal_nobody_reads(fed: Shell) -> None:
    with top_on_terminal(fed, "--max-rate", "1000000") as top:
        top.until_shown("q quit")
        for number in range(200):
            top.type("?s"[number % 2])
        top.process.send_signal(signal.SIGTERM)
        assert top.process.wait(PATIENCE_S) == 143
        assert top.settings == top.before


def test_it_outlives_its_broker(alone: Shell) -> None:
    with broker_up(alone) as up:
        emit(alone, "first")
        with top_on_terminal(alone) as top:
            top.until_shown("codex#1", "q quit")
            up.process.kill()
            up.wait()
            top.until_shown("no broker since")
            with broker_up(alone):
                emit(alone, "second")
                top.until(lambda text: "codex#2" in text and "no broker" not in text)
                top.type("q")
                assert top.ended() == 0
            assert top.settings == top.before


def test_without_a_broker_the_terminal_is_not_touched(alone: Shell) -> None:
    with top_on_terminal(alone) as top:
        assert top.ended() == 69
        assert ENTER not in top.raw
        assert top.settings == top.before


def test_one_screen_for_scripts(fed: Shell) -> None:
    ran = fed.call("top", "--once", COLUMNS="80", LINES="24")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].startswith(" lifebus ")
    assert len(lines) <= 24
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b" not in ran.out
    assert "> " not in ran.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "needs a terminal"),
        (("--json",), "answer in JSON"),
        (("--once", "--max-rate", "10"), "at least 256 bytes"),
    ],
)
def test_what_cannot_be_shown_is_refused(fed: Shell, words: tuple[str, ...], complaint: str) -> None:
    ran = fed.call("top", *words)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err


def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(fed: Shell) -> None:
    with top_on_terminal(fed) as top:
        top.until_shown("q quit")
        top.process.send_signal(signal.SIGTSTP)
        top.until(lambda _: psutil.Process(top.process.pid).status() == psutil.STATUS_STOPPED)
        while top.read(0):
            pass
        assert top.settings == top.before
        assert top.raw.endswith(LEAVE)
        top.process.send_signal(signal.SIGCONT)
        top.until(lambda text: top.raw.count(ENTER) >= 2 and "q quit" in text)
        assert top.settings != top.before
        top.type("q")
        assert top.ended() == 0


def test_a_screen_that_others_wrote_on_while_it_was_stopped_is_drawn_again(fed: Shell) -> None:
    with top_on_terminal(fed) as top:
        top.until_shown("q quit")
        top.process.send_signal(signal.SIGSTOP)
        top.until(lambda _: psutil.Process(top.process.pid).status() == psutil.STATUS_STOPPED)
        while top.read(0):
            pass
        top.screen.reset()  # by the shell, which takes the terminal meanwhile
        top.process.send_signal(signal.SIGCONT)
        top.until_shown(" lifebus ", "q quit")
        top.type("q")
        assert top.ended() == 0
        assert top.settings == top.before
