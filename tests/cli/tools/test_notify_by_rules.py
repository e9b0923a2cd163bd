"""`lifebus notify --rules`: what the configuration says, each rule under its name, over restarts."""

import os
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import lifebus
from lifebus import Emission
from lifebus.requests import make_request
from support.command_line import Shell, broker_up
from support.fork_server import Process
from support.inbox.http_receiver import receiving
from support.patience import PATIENCE_S
from support.running import short_directory


@pytest.fixture
def shell() -> Iterator[Shell]:
    """A shell beside a broker, with a configuration file."""
    with short_directory() as directory:
        config = directory / "config.toml"
        config.write_text("")
        shell = Shell(directory, LIFEBUS_CONFIG=str(config))
        with broker_up(shell):
            yield shell


def configure(shell: Shell, *rules: str) -> None:
    usual = 'group = "0s"\nafter = "0s"\n'
    text = "".join(f"[[notifications]]\n{usual}{rule}\n" for rule in rules)
    (shell.directory / "config.toml").write_text(text)


@contextmanager
def by_rules(shell: Shell, count: int) -> Generator[Process]:
    """`lifebus notify --rules` while it runs, each rule ready at the beginning of the block."""
    with shell.started("notify", "--rules") as process:
        assert process.stderr is not None
        for _ in range(count):
            line = process.stderr.readline().decode()
            assert line.startswith("notifying by"), line
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0


def tell(shell: Shell, session: str, event: str, **facts: Any) -> None:
    """Record an event of a session with facts, as the supervisor does."""

    async def record() -> None:
        async with lifebus.connect("teller", runtime_dir=shell.directory / "run", timeout=PATIENCE_S) as bus:
            await bus.emit(Emission(request=make_request(event, "codex", session=session), telemetry=facts))

    anyio.run(record)


def test_each_rule_reports_what_it_is_for_by_its_own_way(shell: Shell, tmp_path: Path) -> None:
    pipe, script = tmp_path / "told", tmp_path / "told.sh"
    os.mkfifo(pipe)
    script.write_text(f'#!/bin/sh\nprintf "%s" "$LIFEBUS_NOTICE_TITLE" > {pipe}\n')
    script.chmod(0o755)
    with receiving() as receiver:
        configure(
            shell,
            f'name = "ends"\non = ["ends"]\nwebhook = "{receiver.url}"',
            f'name = "flows"\non = ["escalations"]\ncommand = ["{script}"]',
        )
        with by_rules(shell, 2):
            tell(shell, "s1", "session.started")
            tell(shell, "s1", "supervisor.tick", waiting="begun", waiting_for="input", waiting_kind="flow.escalation")
            assert pipe.read_text() == "codex#1 waits for an answer (flow.escalation)"
            tell(shell, "s1", "session.ended")
            document = receiver.next().document
    assert [one["kind"] for one in document["notices"]] == ["ends"]
    assert document["consumer"] == "ends"
    assert {one["cursor"] for one in shell.call("clients", "lag", "--json").json} >= {"ends", "flows"}


def test_nothing_is_missed_over_a_restart_and_nothing_comes_twice(shell: Shell) -> None:
    with receiving() as receiver:
        configure(shell, f'name = "ends"\non = ["ends"]\nwebhook = "{receiver.url}"')
        with by_rules(shell, 1):
            tell(shell, "s1", "session.ended")
            first = receiver.next().document
            shell.until_acknowledged("ends")
        tell(shell, "s2", "session.ended")
        with by_rules(shell, 1):
            second = receiver.next().document
            shell.until_acknowledged("ends")
        assert [one["session"] for one in (*first["notices"], *second["notices"])] == ["s1", "s2"]
        assert len(receiver.posts) == 2


def test_a_service_that_apprise_knows_gets_it(shell: Shell, tmp_path: Path) -> None:
    with receiving() as receiver:
        address = tmp_path / "service"
        address.write_text(f"json://127.0.0.1:{receiver.port}/told")
        address.chmod(0o600)
        configure(shell, f'name = "phone"\non = ["ends"]\napprise_file = "{address}"')
        with by_rules(shell, 1):
            tell(shell, "s1", "session.ended")
            posted = receiver.next().document
    assert posted["title"] == "codex#1 has ended"


@pytest.mark.parametrize(
    ("rule", "arguments", "said"),
    [
        (None, (), "the configuration has no [[notifications]]"),
        ('name = "a"\ncommand = ["./nope"]', (), "the rule `a`: there is no program ./nope"),
        ('name = "a"\ncommand = ["true"]\nmax_age = "9h"', (), "the rule `a`: --max-age: an hour at most"),
        ('name = "a"\ncommand = ["true"]', ("--name", "b"), "takes everything from the configuration"),
        ('name = "a"\ncommand = ["true"]', ("--", "true"), "takes everything from the configuration"),
    ],
)
def test_what_cannot_be_done_is_said_at_the_start(
    alone: Shell, rule: str | None, arguments: tuple[str, ...], said: str
) -> None:
    config = alone.directory / "config.toml"
    config.write_text(f"[[notifications]]\n{rule}\n" if rule else "")
    ran = alone.call("notify", "--rules", *arguments, LIFEBUS_CONFIG=str(config))
    assert (ran.code, said in ran.err) == (2, True), ran.err
