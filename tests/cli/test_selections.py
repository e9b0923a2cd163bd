"""`--failed` and `--canaries`: turns that failed at the model are found, and what tries hooks is not shown."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lifebus.blocking import connect
from lifebus_transports.messages.reads import Backfill
from support.command_line import Shell, broker_up
from support.patience import PATIENCE, PATIENCE_S
from support.running import short_directory

PROMPT: dict[str, Any] = {"hook_event_name": "UserPromptSubmit", "prompt_id": "t1", "prompt": "PRIVATE"}
FAILURE: dict[str, Any] = {"hook_event_name": "StopFailure", "prompt_id": "t1", "error": "server_error"}
STOP: dict[str, Any] = {"hook_event_name": "Stop", "prompt_id": "t1", "stop_hook_active": False}
REFUSED = ("--require", "renewal.reset.native")
END: dict[str, Any] = {"hook_event_name": "SessionEnd", "reason": "exit"}


def hook(shell: Shell, session: str, payload: dict[str, Any]) -> None:
    """Call the launcher that was installed, as Claude Code does, until the ledger has what the call says."""
    shell.hook("claude", {"session_id": session, **payload})
    came = (session, payload["hook_event_name"])
    # A call that found no time in the broker lies in the spool for a moment.
    until = time.monotonic() + PATIENCE_S
    while came not in {
        (one["harness_session_id"], one["telemetry_summary"].get("source_hook")) for one in ledger(shell)
    }:
        assert time.monotonic() < until


@pytest.fixture(scope="module")
def told() -> Iterator[Shell]:
    """A broker with a session whose turn failed at the model, a refused emission, a sound session, and canaries."""
    with short_directory() as directory:
        shell = Shell(directory)
        assert shell.call("hooks", "install", "claude", "--yes").code == 0
        with broker_up(shell):
            scripts = {"bad": [PROMPT, FAILURE, END], "good": [PROMPT, STOP, END]}
            for session, calls in scripts.items():
                for payload in calls:
                    hook(shell, session, payload)
            shell.call("emit", "session.started", "--adapter", "codex", "--session", "s1", *REFUSED)
            # The time is that of the canaries that are lost, and none is.
            assert shell.call("hooks", "test", "claude", "--timeout", PATIENCE).code == 0
            yield shell


def receipts(shell: Shell, *command: str) -> list[dict[str, Any]]:
    """The receipts that a command shows."""
    return [line["receipt"] for line in shell.call(*command, "--json").lines]


def ledger(shell: Shell) -> list[dict[str, Any]]:
    """Every receipt of the ledger, as the export writes them."""
    return [json.loads(line) for line in shell.call("receipts", "export").out.splitlines()]


def names(found: list[dict[str, Any]]) -> list[tuple[str | None, str, str]]:
    return [(one["harness_session_id"], one["event"], one["status"]) for one in found]


FAILURES = [("bad", "frame.ended", "observed"), ("s1", "session.started", "failed")]


@pytest.mark.parametrize("command", [("tail", "--no-follow"), ("receipts", "list")])
def test_a_turn_that_failed_at_the_model_is_found(told: Shell, command: tuple[str, ...]) -> None:
    assert names(receipts(told, *command, "--failed")) == FAILURES
    # The status is that of the receipt itself, and this turn was observed to fail.
    assert names(receipts(told, *command, "--status", "failed")) == FAILURES[1:]
    assert names(receipts(told, *command, "--failed", "--adapter", "claude")) == FAILURES[:1]


def test_a_session_in_which_something_failed_is_found(told: Shell) -> None:
    found = [one["harness_session_id"] for one in told.call("sessions", "--failed", "--json").json]
    assert sorted(found) == ["bad", "s1"]
    assert len(told.call("sessions", "--json").json) == 3


def test_the_library_follows_failures(told: Shell) -> None:
    with connect("reader", runtime_dir=told.directory / "run") as bus:
        found = list(bus.receipts(since="start", failed=True, until_head=True))
        page = bus.read(Backfill(failed=True))
    assert [(one.harness_session_id, one.event.value, one.status.value) for one in found] == FAILURES
    assert names([json.loads(row.receipt) for row in page.rows]) == FAILURES


@pytest.mark.parametrize("command", [("tail", "--no-follow"), ("receipts", "list", "-n", "1000")])
def test_canaries_are_shown_to_who_asks_for_them(told: Shell, command: tuple[str, ...]) -> None:
    whole = ledger(told)
    canaries = [one["receipt_id"] for one in whole if "canary" in one["telemetry_summary"]]
    assert canaries
    shown = [one["receipt_id"] for one in receipts(told, *command)]
    assert shown == [one["receipt_id"] for one in whole if one["receipt_id"] not in canaries]
    assert [one["receipt_id"] for one in receipts(told, *command, "--canaries")] == [o["receipt_id"] for o in whole]


def test_a_subscriber_of_everything_gets_canaries_and_positions_without_holes(told: Shell) -> None:
    with connect("reader", runtime_dir=told.directory / "run") as bus:
        follow = bus.receipts(since="start", until_head=True)
        found = [(one, follow.cursor.position) for one in follow if follow.cursor]
        few = list(bus.receipts(since="start", until_head=True, canaries=False))
    assert [position for _, position in found] == list(range(1, len(ledger(told)) + 1))
    assert [one.receipt_id for one, _ in found] == [one["receipt_id"] for one in ledger(told)]
    left_out = {one.receipt_id for one, _ in found} - {one.receipt_id for one in few}
    assert left_out == {one["receipt_id"] for one in ledger(told) if "canary" in one["telemetry_summary"]}
