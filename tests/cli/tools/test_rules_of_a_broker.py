"""A broker whose configuration has `[[notifications]]` carries the rules out, for as long as it runs."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import lifebus
from lifebus import Emission
from lifebus.requests import make_request
from support.command_line import Shell, Up, broker_up
from support.inbox.http_receiver import receiving
from support.patience import PATIENCE_S
from support.running import short_directory, until_answered

RULE = '[[notifications]]\nname = "desk"\non = ["ends"]\ngroup = "0s"\nafter = "0s"\nwebhook = "{}"\n'


@pytest.fixture
def home() -> Iterator[Path]:
    with short_directory() as directory:
        yield directory


def end_session(home: Path, session: str) -> None:
    """Have a session end, once somebody consumes as the rule's name."""

    async def record() -> None:
        async with lifebus.connect("teller", runtime_dir=home / "run", timeout=PATIENCE_S) as bus:
            with anyio.fail_after(PATIENCE_S):
                await until_answered(bus.cursors.standing, lambda found: [one for one in found if one.attached])
            await bus.emit(Emission(request=make_request("session.ended", "codex", session=session)))

    anyio.run(record)


def notifying(pid: int) -> int:
    """The child of a broker that carries its rules out."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (found,) = [int(one) for one in children if b"notify" in Path(f"/proc/{one}/cmdline").read_bytes()]
    return found


def events(up: Up, name: str) -> list[dict[str, Any]]:
    return [found for line in up.log if (found := json.loads(line))["event"] == name]


def test_rules_are_carried_out_while_the_broker_runs_and_by_the_next_one(home: Path) -> None:
    config = home / "elsewhere.toml"
    with receiving() as receiver:
        config.write_text(RULE.format(receiver.url))
        for session in ("s1", "s2"):
            # The file is named by a flag: the command that notifies has to read the same one.
            shell = Shell(home)
            with broker_up(shell, "--config", str(config)) as up:
                end_session(home, session)
                assert [one["session"] for one in receiver.next().document["notices"]] == [session]
                shell.until_acknowledged("desk")
                assert up.stop() == 0
            assert len(events(up, "notification_rules")) >= 1
        assert len(receiver.posts) == 2


def test_a_command_that_is_started_by_hand_takes_over_and_is_left_alone(home: Path) -> None:
    config = home / "config.toml"
    with receiving() as receiver:
        config.write_text(RULE.format(receiver.url))
        shell = Shell(home, LIFEBUS_CONFIG=str(config))
        with broker_up(shell) as up:
            end_session(home, "s1")
            receiver.next()
            shell.until_acknowledged("desk")
            with shell.started("notify", "--rules") as process:
                assert process.stderr is not None
                assert process.stderr.readline().startswith(b"notifying by")
                up.wait_for("notification_rules_given_up")
                end_session(home, "s2")
                assert [one["session"] for one in receiver.next().document["notices"]] == ["s2"]
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE_S) == 0
            assert up.stop() == 0
        assert events(up, "notification_rules_ended") == []


def test_a_command_that_is_killed_is_started_again(home: Path) -> None:
    config = home / "config.toml"
    with receiving() as receiver:
        config.write_text(RULE.format(receiver.url))
        with broker_up(Shell(home, LIFEBUS_CONFIG=str(config))) as up:
            end_session(home, "s1")
            receiver.next()
            os.kill(notifying(up.process.pid), signal.SIGKILL)
            up.wait_for("notification_rules_ended")
            end_session(home, "s2")
            # What was sent and not yet acknowledged when it was killed is sent again.
            while "s2" not in [one["session"] for one in receiver.next().document["notices"]]:
                pass
            assert up.stop() == 0
