"""`lifebus inject` as people run it: what reaches a session, once, and what is shown of it."""

import json
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.command_line import Shell, broker_up
from support.fork_server import Process
from support.patience import PATIENCE_S
from support.running import short_directory

TEXT = 'Use tabs.\n"Quote" \\ and ünïcode.'


@pytest.fixture(scope="module")
def up() -> Iterator[Shell]:
    """A shell beside a broker."""
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            yield shell


def emitted(shell: Shell, event: str, session: str, number: int = 1, cwd: str = "/srv/api") -> list[dict[str, Any]]:
    """Report an event as a hook does, without a hook's limit of time, and return the payloads that come back."""
    request = {
        "schema_version": "lifeloop.v0.2",
        "event": event,
        "event_id": f"evt_{event}_{session}_{number}",
        "adapter_id": "claude",
        "adapter_version": "0.1.0",
        "invocation_id": f"inv_{event}_{session}_{number}",
        "integration_mode": "native_hook",
        "harness_session_id": session,
        "idempotency_key": f"{event}/{session}/{number}",
        "metadata": {"cwd": cwd},
    }
    if event.startswith("frame."):
        request["frame_context"] = {"frame_id": f"f{number}", "frame_class": "top_level"}
    emission = {"request": request, "telemetry": {"cwd": cwd}}
    ran = shell.call("emit", "--file", "-", "--json", "--timeout", "60s", stdin=json.dumps(emission).encode())
    return [one["payload"] for one in ran.lines[0].get("deliveries", ())]


@contextmanager
def injecting(shell: Shell, *arguments: str) -> Generator[Process]:
    """`lifebus inject --json` while it runs, ready at the beginning of the block."""
    with shell.started("inject", "--json", *arguments) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, b"")
        said = next(line for line in lines if not line.startswith((b"limits", b"too long")))
        assert said.startswith(b"injecting as"), said
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def outcome(process: Process) -> dict[str, Any]:
    """Return the next line that it prints."""
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def test_a_new_session_gets_the_text_once_and_it_is_shown_where(up: Shell, tmp_path: Path) -> None:
    note = tmp_path / "note"
    note.write_text(TEXT + "\n")
    emitted(up, "session.started", "old")
    with injecting(up, "--client", "i1", "--file", str(note)) as process:
        (given,) = emitted(up, "session.started", "s1")
        shown = outcome(process)
        again = emitted(up, "frame.opening", "s1")
        old = emitted(up, "frame.opening", "old")
    assert (given["body"], given["payload_kind"]) == (TEXT, "context")
    assert (again, old) == ([], [])
    assert [shown[name] for name in ("outcome", "adapter_id", "session", "event")] == [
        "delivered",
        "claude",
        "s1",
        "session.started",
    ]
    assert shown["name"].startswith("api#")
    (receipt,) = up.call("receipts", "--payload", given["payload_id"], "--json").lines
    assert receipt["receipt"]["receipt_id"] == shown["receipt_id"]


def test_open_sessions_get_it_with_their_next_prompt_and_not_again_after_a_restart(up: Shell, tmp_path: Path) -> None:
    note = tmp_path / "note"
    note.write_text(TEXT)
    asked = ("--client", "i2", "--open", "--file", str(note))
    emitted(up, "session.started", "s2")
    with injecting(up, *asked) as process:
        assert [one["body"] for one in emitted(up, "frame.opening", "s2")] == [TEXT]
        assert outcome(process)["event"] == "frame.opening"
    with injecting(up, *asked):
        assert emitted(up, "frame.opening", "s2", 2) == []


def test_a_command_makes_the_text_for_a_session_and_folders_are_chosen(up: Shell) -> None:
    script = 'read -r line; printf "%s in %s" "$LIFEBUS_ADAPTER" "$LIFEBUS_CWD"'
    with injecting(up, "--client", "i3", "--project", "api", "--", "/bin/sh", "-c", script) as process:
        assert emitted(up, "session.started", "s3", cwd="/srv/web") == []
        assert [one["body"] for one in emitted(up, "session.started", "s4")] == ["claude in /srv/api"]
        assert outcome(process)["session"] == "s4"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give the text: --file FILE, or a command"),
        (("--file", "/dev/null", "--", "true"), "give one text alone"),
        (("--", "./nope"), "there is no program ./nope"),
        (("--file", "/nope"), "/nope"),
    ],
)
def test_what_cannot_be_done_is_said_at_the_start(alone: Shell, arguments: tuple[str, ...], said: str) -> None:
    ran = alone.call("inject", *arguments)
    assert (ran.code in {2, 74}, said in ran.err) == (True, True), ran.err


def test_a_text_that_nobody_takes_is_refused_with_the_limits(up: Shell, tmp_path: Path) -> None:
    note = tmp_path / "note"
    note.write_text("x" * 9_000)
    ran = up.call("inject", "--adapter", "claude", "--file", str(note))
    assert (ran.code, "no harness takes this text" in ran.err, "claude 8192" in ran.err) == (2, True, True), ran.err
