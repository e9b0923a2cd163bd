"""`lifebus inbox`: questions listed, shown and answered."""

from datetime import UTC, datetime
from pathlib import Path

import anyio

import lifebus
from lifebus_contract.questions import Question
from support.command_line import Shell, broker_up
from support.inbox.questions import question


async def ask(runtime_dir: Path, *questions: Question) -> None:
    async with lifebus.connect("asker", runtime_dir=runtime_dir) as bus:
        for one in questions:
            await bus.inbox.ask(one)


def test_a_question_is_listed_shown_and_answered_once(alone: Shell) -> None:
    with broker_up(alone):
        assert "no question waits" in alone.call("inbox", "list").err
        anyio.run(ask, alone.directory / "run", question(context={"log": "a\nb\x1b[31m"}), question("q_2"))
        (first, second) = alone.call("inbox", "list", "--json").json
        assert (first["question"]["question_id"], second["question"]["question_id"]) == ("q_1", "q_2")
        listed = alone.call("inbox").out
        for words in ("q_1", "audit is blocked", "escalation", "open"):
            assert words in listed
        shown = alone.call("inbox", "show", "q_1").out
        for words in (
            "the credentials have expired",
            "- log in again",
            "inbox answer q_1 proceed",
            "depth: integer, one of [1, 2, 3]",
        ):
            assert words in shown
        assert "\x1b" not in shown
        moment = datetime.fromtimestamp(first["question"]["asked_at_ms"] / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert all(moment in text for text in (listed, shown))

        done = alone.call("inbox", "answer", "q_1", "retry", "--message", "renewed", "--as", "alice", "--json").json
        assert (done["answer"]["action"], done["answer"]["responder"], done["answer"]["channel"]) == (
            "retry",
            "alice",
            "cli",
        )
        late = alone.call("inbox", "answer", "q_1", "abort")
        assert (late.code, late.out) == (1, "")
        for fact in ("answered already: `retry` by alice", "through cli", "renewed"):
            assert fact in late.err
        assert "retry by alice" in alone.call("inbox", "list", "--all").out
        assert [one["question"]["question_id"] for one in alone.call("inbox", "list", "--json").json] == ["q_2"]
        assert "renewed" in alone.call("inbox", "show", "q_1").out


def test_modifications_are_read_as_the_question_declares_them(alone: Shell) -> None:
    with broker_up(alone):
        anyio.run(ask, alone.directory / "run", question())
        for words, code, complaint in (
            (("--set", "depth=deep"), 2, "JSON of the kind integer"),
            (("--set", "depth"), 2, "not NAME=VALUE"),
            (("--set", "depth=9"), 65, "one of 1, 2, 3"),
            (("--set", "other=1"), 65, "may not be modified"),
            ((), 65, "at least one"),
        ):
            ran = alone.call("inbox", "answer", "q_1", "modify", *words)
            assert (ran.code, complaint in ran.err) == (code, True), ran
        values = ("--set", "depth=3", "--set", "branch=12", "--set", "force=true", "--set", 'files=["a"]')
        done = alone.call("inbox", "answer", "q_1", "modify", *values, "--json").json
        assert done["answer"]["modifications"] == {"depth": 3, "branch": "12", "force": True, "files": ["a"]}


def test_what_is_not_there_is_said(alone: Shell) -> None:
    with broker_up(alone):
        for words in (("show", "q_9"), ("answer", "q_9", "retry")):
            ran = alone.call("inbox", *words)
            assert (ran.code, "no question `q_9`" in ran.err) == (1, True)
        assert alone.call("inbox", "answer", "q_9", "sing").code == 2
    assert alone.call("inbox", "list").code == 69
