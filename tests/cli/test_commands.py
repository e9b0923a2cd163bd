"""`lifebus serve` and `lifebus dev invoke`: commands as clients from the command line."""

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from support.command_line import Shell, broker_up
from support.fork_server import Process
from support.ignored_signals import ignoring
from support.leftovers import MARK, marked
from support.paths import EXAMPLES
from support.patience import PATIENCE_S
from support.running import short_directory
from support.transports.children import ANSWER

EXAMPLE = EXAMPLES / "command.py"
PYTHON = (sys.executable, str(EXAMPLE))
GOOD = ("sh", "-c", f"cat >/dev/null; echo '{ANSWER}'")
BAD = ("sh", "-c", "echo 'the key=abc is wrong' >&2; exit 4")


def envelope(**fields: Any) -> bytes:
    request = {
        "schema_version": "lifeloop.v0.2",
        "event": "frame.opening",
        "event_id": "e1",
        "adapter_id": "codex",
        "adapter_version": "0.1.0",
        "invocation_id": "i1",
        "integration_mode": "native_hook",
        "harness_session_id": "s1",
        "frame_context": {"frame_id": "f1", "frame_class": "top_level"},
        **fields.pop("request", {}),
    }
    return json.dumps({"schema_version": "lifeloop.v0.2", "request": request, **fields}).encode()


def payload(placement: str) -> dict[str, Any]:
    return {
        "schema_version": "lifeloop.v0.2",
        "payload_id": "pay_1",
        "client_id": "me",
        "payload_kind": "note",
        "format": "text",
        "content_encoding": "utf8",
        "body": "hello there",
        "byte_size": 11,
        "acceptable_placements": [{"placement": placement, "requirement": "required"}],
    }


@pytest.fixture
def shell() -> Iterator[Shell]:
    with short_directory() as directory:
        yield Shell(directory)


@pytest.mark.parametrize("protocol", ["oneshot", "jsonl"])
def test_invoke_prints_the_receipt_of_a_command_and_keeps_nothing(shell: Shell, protocol: str) -> None:
    asked = ("dev", "invoke", "--protocol", protocol, "--client", "notes", "--deadline", "20s", "--", *PYTHON)
    ran = shell.call(*asked, stdin=envelope())
    assert (ran.code, ran.err) == (0, "")
    (receipt,) = ran.lines
    assert (receipt["client_id"], receipt["sequence"], receipt["status"]) == ("notes", None, "degraded")
    assert [one["payload_id"] for one in receipt["payload_receipts"]] == ["pay_e1"]
    assert json.dumps(receipt, sort_keys=True, separators=(",", ":"), ensure_ascii=False) == ran.out.strip()
    assert not (shell.directory / "state").exists()


def test_invoke_hands_on_the_facts_of_the_envelope(shell: Shell) -> None:
    facts = {"telemetry": {"context_used_pct": 84}}
    event = {"event": "context.pressure_observed", "metadata": {"lifebus": facts}}
    script = f"cat > {shell.directory}/asked; echo '{ANSWER}'"
    ran = shell.call("dev", "invoke", "--", "sh", "-c", script, stdin=envelope(request=event))
    (receipt,) = ran.lines
    asked = json.loads((shell.directory / "asked").read_text())
    assert asked["request"]["metadata"]["lifebus"].pop("traceparent").startswith("00-")
    assert asked["request"]["metadata"] == {"lifebus": facts}
    assert receipt["telemetry_summary"]["context_used_pct"] == 84


def test_invoke_says_no_with_1_and_the_receipt_says_why(shell: Shell) -> None:
    ran = shell.call("dev", "invoke", "--", *BAD, stdin=envelope())
    (receipt,) = ran.lines
    assert (ran.code, receipt["status"], receipt["failure_class"]) == (1, "failed", "transport_error")
    assert receipt["telemetry_summary"]["client_exit_code"] == 4
    assert receipt["telemetry_summary"]["client_stderr"] == "the key=[redacted] is wrong"


def test_invoke_keeps_its_deadline(shell: Shell) -> None:
    ran = shell.call(
        "dev", "invoke", "--deadline", "200ms", "--", "sh", "-c", "trap '' TERM; sleep 60", stdin=envelope()
    )
    assert (ran.code, ran.lines[0]["failure_class"]) == (1, "timeout")


def test_invoke_places_the_payloads_of_the_envelope_first(shell: Shell) -> None:
    ran = shell.call("dev", "invoke", "--", *GOOD, stdin=envelope(payloads=[payload("receipt_only")]))
    root, own = ran.lines
    assert ran.code == 0
    assert own["parent_receipt_id"] == root["receipt_id"]
    ran = shell.call("dev", "invoke", "--", *GOOD, stdin=envelope(payloads=[payload("side_channel_context")]))
    (refused,) = ran.lines
    assert (ran.code, refused["failure_class"]) == (1, "placement_unavailable")


@pytest.mark.parametrize(
    ("stdin", "code", "said"),
    [
        (b"hello", 65, "not valid JSON"),
        (b"", 65, "not valid JSON"),
        (envelope(extra=1), 65, "unknown key"),
        (envelope(request={"event": "frame.open"}), 65, "there is no `frame.open`"),
        (envelope(request={"adapter_id": "nobody"}), 1, "no adapter `nobody`; known are codex"),
    ],
)
def test_invoke_refuses_what_it_cannot_route(shell: Shell, stdin: bytes, code: int, said: str) -> None:
    ran = shell.call("dev", "invoke", "--", *GOOD, stdin=stdin)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("dev", "invoke"),
        ("dev", "invoke", "--deadline", "0s", "--", "true"),
        ("dev", "invoke", "--deadline", "1d", "--", "true"),
        ("dev", "invoke", "--protocol", "yaml", "--", "true"),
        ("serve", "--", "true"),
        ("serve", "--event", "frame.open", "--", "true"),
        ("serve", "--event", "receipt.emitted", "--", "true"),
        ("serve", "--event", "frame.opening"),
        ("serve", "--event", "frame.opening", "--workers", "0", "--", "true"),
    ],
)
def test_a_command_line_that_says_nothing_that_can_be_done_is_a_usage_error(
    shell: Shell, arguments: tuple[str, ...]
) -> None:
    ran = shell.call(*arguments, stdin=envelope())
    assert (ran.code, ran.out) == (2, "")


def test_serve_points_to_the_receipt_stream_where_nobody_would_be_asked(shell: Shell) -> None:
    ran = shell.call("serve", "--event", "receipt.emitted", "--", "true")
    assert "nobody is asked about `receipt.emitted`; follow the receipts instead, with `lifebus tail`" in ran.err


def test_a_command_has_flags_of_its_own(shell: Shell) -> None:
    script = f"cat >/dev/null; test \"$1 $2\" = '--event --json' && echo '{ANSWER}'"
    ran = shell.call("dev", "invoke", "--", "sh", "-c", script, "sh", "--event", "--json", stdin=envelope())
    assert ran.code == 0, ran


@contextmanager
def serving(shell: Shell, *arguments: str, smoke: bool = False) -> Iterator[Process]:
    """A `lifebus serve` that is registered."""
    with shell.started("serve", *arguments, smoke=smoke) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith(b"serving as "), line + process.stderr.read()
        yield process


def frame(shell: Shell) -> list[dict[str, Any]]:
    """Tell of a frame that opens, and return its receipts."""
    ran = shell.call("emit", "frame.opening", "--adapter", "codex", "--session", "s1", "--frame", "f1", "--json")
    return [receipt for line in ran.lines for receipt in line["receipts"]]


@pytest.mark.parametrize(("protocol", "number"), [("oneshot", signal.SIGTERM), ("jsonl", signal.SIGINT)])
def test_serve_answers_with_a_command_and_ends_with_its_children(
    shell: Shell, protocol: str, number: signal.Signals
) -> None:
    shell.environment[MARK] = mark = uuid4().hex
    asked = ("--event", "frame.opening", "--protocol", protocol, "--client", "notes", "--deadline", "20s")
    with broker_up(shell), serving(shell, *asked, "--", *PYTHON) as process:
        (receipt,) = frame(shell)
        listed = shell.call("clients", "--json").json
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0
        assert frame(shell)[0]["client_id"] == "lifebus-cli"
    assert (receipt["client_id"], receipt["status"]) == ("notes", "degraded")
    assert receipt["telemetry_summary"].get("client_exit_code") == (0 if protocol == "oneshot" else None)
    assert [(one["client_id"], one["kind"]) for one in listed] == [("notes", "worker")]
    assert marked(mark) == []


def test_serve_in_the_background_and_under_nohup_ends_by_sigterm_alone(shell: Shell) -> None:
    asked = ("--event", "frame.opening", "--client", "notes")
    ignored = (signal.SIGINT, signal.SIGHUP)
    with broker_up(shell), ignoring(*ignored), serving(shell, *asked, "--", *GOOD, smoke=True) as process:
        for number in ignored:
            process.send_signal(number)
        (receipt,) = frame(shell)
        assert (receipt["client_id"], process.poll()) == ("notes", None)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_what_a_served_command_did_wrong_is_in_the_receipt(shell: Shell) -> None:
    with broker_up(shell), serving(shell, "--event", "frame.opening", "--client", "bad", "--", *BAD):
        (receipt,) = frame(shell)
    assert (receipt["failure_class"], receipt["warnings"][0]["code"]) == ("transport_error", "exit_code")
    assert receipt["telemetry_summary"]["client_exit_code"] == 4
    assert receipt["telemetry_summary"]["client_stderr"] == "the key=[redacted] is wrong"


def test_serve_outlives_a_restart_of_the_broker(shell: Shell) -> None:
    with broker_up(shell) as up, serving(shell, "--event", "frame.opening", "--client", "notes", "--", *GOOD):
        up.stop()
        with broker_up(shell):
            deadline = time.monotonic() + PATIENCE_S
            while not shell.call("clients", "--json").json:
                assert time.monotonic() < deadline
            (receipt,) = frame(shell)
    assert receipt["client_id"] == "notes"


def test_serve_without_a_broker_says_so(shell: Shell) -> None:
    ran = shell.call("serve", "--event", "frame.opening", "--timeout", "200ms", "--", *GOOD)
    assert (ran.code, ran.out) == (69, "")
