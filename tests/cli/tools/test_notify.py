"""`lifebus notify` as people run it: real commands beside a real broker, a real address, a real kill."""

import json
import os
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lifebus_contract.consumers import MAX_TRIES
from support.command_line import Shell, broker_up
from support.fork_server import Process
from support.inbox.http_receiver import receiving
from support.patience import PATIENCE_S
from support.running import short_directory

PROMPT = {"hook_event_name": "UserPromptSubmit", "prompt_id": "t1", "prompt": "PRIVATE"}
PERMISSION = {"hook_event_name": "PermissionRequest", "prompt_id": "t1", "tool_name": "Bash", "tool_input": {"c": "rm"}}
STOP = {"hook_event_name": "Stop", "prompt_id": "t1", "stop_hook_active": False}
AT_ONCE = ("--group", "0s", "--after", "0s")


@pytest.fixture(scope="module")
def hooked() -> Iterator[Shell]:
    """A shell beside a broker, with the hooks of Claude Code installed."""
    with short_directory() as directory:
        shell = Shell(directory, LIFEBUS_TICKS_INTERVAL_MS="100")
        assert shell.call("hooks", "install", "claude", "--yes").code == 0
        with broker_up(shell):
            yield shell


def hook(shell: Shell, session: str, payload: dict[str, Any]) -> None:
    """Call the launcher that was installed, as Claude Code does."""
    shell.hook("claude", {"session_id": session, "cwd": "/srv/api", **payload})


@contextmanager
def notifying(shell: Shell, *arguments: str) -> Generator[Process]:
    """`lifebus notify` while it runs, ready at the beginning of the block."""
    with shell.started("notify", *arguments) as process:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        assert line.startswith("notifying by"), line
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0


@contextmanager
def written(folder: Path) -> Generator[tuple[list[str], Callable[[], dict[str, Any]]]]:
    """A command that hands what it is told to the test, through a pipe; and what reads the next."""
    pipe, script = folder / "told", folder / "told.sh"
    os.mkfifo(pipe)
    script.write_text(f'#!/bin/sh\nread -r line\nprintf "%s\\n" "$LIFEBUS_NOTICE_TITLE" "$line" > {pipe}\n')
    script.chmod(0o755)

    def next_notice() -> dict[str, Any]:
        with pipe.open() as lines:
            title, document = lines.read().splitlines()
        found: dict[str, Any] = json.loads(document)
        assert title == found["title"]
        return found

    yield [str(script)], next_notice


def test_a_command_learns_that_a_session_waits_and_ends(hooked: Shell, tmp_path: Path) -> None:
    asked = ("--name", "c1", "--session", "claude/s1", *AT_ONCE)
    with written(tmp_path) as (command, next_notice), notifying(hooked, *asked, "--", *command):
        hook(hooked, "s1", PROMPT)
        hook(hooked, "s1", PERMISSION)
        waits = next_notice()
        hook(hooked, "s1", STOP)
        ends = next_notice()
    assert waits["title"].endswith("waits for a permission (Bash)")
    assert waits["title"].startswith("api#")
    (notice,) = waits["notices"]
    assert (notice["kind"], notice["adapter_id"], notice["session"], notice["project"]) == (
        "waits",
        "claude",
        "s1",
        "api",
    )
    assert "PRIVATE" not in json.dumps(waits)
    assert ends["title"].endswith("is done with its turn")


def test_what_is_answered_before_its_time_is_not_reported(hooked: Shell, tmp_path: Path) -> None:
    asked = ("--after", "1h", "--group", "0s", "--session", "claude/s2")
    with written(tmp_path) as (command, next_notice), notifying(hooked, "--name", "c2", *asked, "--", *command):
        hook(hooked, "s2", PROMPT)
        hook(hooked, "s2", PERMISSION)
        hook(hooked, "s2", STOP)
        assert [one["kind"] for one in next_notice()["notices"]] == ["ends"]


def test_a_post_is_retried_under_its_id_and_acknowledged_once(hooked: Shell) -> None:
    with receiving() as receiver:
        receiver.answer = lambda number: (500, {}) if number == 1 else (204, {})
        url = receiver.url
        asked = ("--name", "c3", "--session", "claude/s3", "--on", "waits", *AT_ONCE, "--webhook", url)
        with notifying(hooked, *asked):
            hook(hooked, "s3", PROMPT)
            hook(hooked, "s3", PERMISSION)
            first, second = receiver.next(), receiver.next()
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert first.document["notices"] == second.document["notices"]
        # The next one begins where this one was.
        with notifying(hooked, *asked):
            hook(hooked, "s3", {**PROMPT, "prompt_id": "t2"})
            hook(hooked, "s3", {**PERMISSION, "prompt_id": "t2"})
            third = receiver.next()
        assert third.headers["webhook-id"] != first.headers["webhook-id"]
        assert len(receiver.posts) == 3


def test_a_kill_before_the_acknowledgement_repeats_a_notice_and_one_after_it_does_not(hooked: Shell) -> None:
    asked = ("--name", "c4", "--session", "claude/s4", "--on", "waits", *AT_ONCE)
    with receiving() as receiver:
        killed: list[Process] = []

        def answer(number: int) -> tuple[int, dict[str, str]]:
            if number == 1:
                killed[0].kill()
                killed[0].wait()
            return 204, {}

        receiver.answer = answer
        with notifying(hooked, *asked, "--webhook", receiver.url) as process:
            killed.append(process)
            hook(hooked, "s4", PROMPT)
            hook(hooked, "s4", PERMISSION)
            first = receiver.next()
        with notifying(hooked, *asked, "--webhook", receiver.url) as process:
            again = receiver.next()
            assert again.document["notices"] == first.document["notices"]
            hooked.until_acknowledged("c4")
            process.kill()
            process.wait()
        with notifying(hooked, *asked, "--webhook", receiver.url):
            hook(hooked, "s4", {**PROMPT, "prompt_id": "t2"})
            hook(hooked, "s4", {**PERMISSION, "prompt_id": "t2"})
            other = receiver.next()
        assert other.document["notices"][0]["notice_id"] != first.document["notices"][0]["notice_id"]
        assert len(receiver.posts) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--on", "wait", "--", "true"), "did you mean waits?"),
        (("--quiet", "22-7", "--", "true"), "--quiet: two times of a day"),
        (("--webhook", "http://example.org/x"), "http:// is for this machine alone"),
        (("--webhook", "https://me:secret@example.org/x"), "must not hold a password"),
        (("--webhook", "http://127.0.0.1:1/x", "--", "true"), "two channels"),
        (("--pressure", "0", "--", "true"), "--pressure"),
        (("--", "./nope"), "there is no program ./nope"),
        ((), "there is no `notify-send` here"),
    ],
)
def test_what_cannot_be_done_is_said_at_the_start(alone: Shell, arguments: tuple[str, ...], said: str) -> None:
    ran = alone.call("notify", *arguments, PATH=str(alone.directory) if not arguments else os.defpath)
    assert (ran.code, said in ran.err, "secret" in ran.err) == (2, True, False), ran.err


def test_an_address_that_is_dead_is_given_up_after_its_tries_and_the_next_notice_arrives(hooked: Shell) -> None:
    asked = ("--name", "c5", "--session", "claude/s5", "--on", "waits", *AT_ONCE)
    with receiving() as receiver:
        receiver.answer = lambda _: (503, {"Retry-After": "0"})
        with notifying(hooked, *asked, "--webhook", receiver.url):
            hook(hooked, "s5", PROMPT)
            hook(hooked, "s5", PERMISSION)
            tries = [receiver.next() for _ in range(MAX_TRIES)]
            while not (dead := hooked.call("clients", "dead", "c5", "--json").lines):
                pass
            receiver.answer = lambda _: (204, {})
            hook(hooked, "s5", {**PROMPT, "prompt_id": "t2"})
            hook(hooked, "s5", {**PERMISSION, "prompt_id": "t2"})
            after = receiver.next()
        given_up = {one.document["notices"][0]["notice_id"] for one in tries}
        assert (len(given_up), len(dead)) == (1, 1)
        assert after.document["notices"][0]["notice_id"] not in given_up
        assert len(receiver.posts) == MAX_TRIES + 1


def test_a_restart_of_the_broker_and_one_of_the_tool_lose_and_repeat_nothing() -> None:
    with short_directory() as directory, receiving() as receiver:
        shell = Shell(directory, LIFEBUS_TICKS_INTERVAL_MS="100")
        assert shell.call("hooks", "install", "claude", "--yes").code == 0
        asked = ("--name", "c6", "--on", "ends", *AT_ONCE, "--webhook", receiver.url)

        def turn(session: str) -> None:
            hook(shell, session, PROMPT)
            hook(shell, session, STOP)

        with broker_up(shell), notifying(shell, *asked):
            turn("s1")
            assert receiver.next().document["notices"][0]["session"] == "s1"
        with broker_up(shell) as up:
            turn("s2")
            with notifying(shell, *asked):
                assert receiver.next().document["notices"][0]["session"] == "s2"
                shell.until_acknowledged("c6")
                assert up.stop() == 0
                turn("s3")  # no broker takes it: it lies in the spool
                with broker_up(shell):
                    assert receiver.next().document["notices"][0]["session"] == "s3"
        assert len(receiver.posts) == 3
