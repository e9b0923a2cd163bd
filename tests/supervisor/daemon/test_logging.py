"""The log: machine-readable off a terminal, no secrets, no bodies, no forged lines, no floods (issue part 11)."""

import io
import json
from typing import Any

import pytest
import structlog

from lifebus_supervisor.configuration.settings import LogSettings
from lifebus_supervisor.daemon.logging import RateLimit, configure


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    def write(self, text: str, /) -> int:
        raise BrokenPipeError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> Any:
    yield
    structlog.reset_defaults()


def logged(level: str = "info", **context: Any) -> dict[str, Any]:
    stream = io.StringIO()
    configure(LogSettings(), stream)
    getattr(structlog.get_logger("lifebus.test"), level)("something_happened", **context)
    return json.loads(stream.getvalue())  # type: ignore[no-any-return]


def test_off_a_terminal_each_line_is_one_json_object_with_time_level_logger_and_event_first() -> None:
    line = logged(count=3)
    assert list(line)[:4] == ["timestamp", "level", "logger", "event"]
    assert (line["level"], line["logger"], line["event"]) == ("info", "lifebus.test", "something_happened")
    assert line["count"] == 3
    assert line["timestamp"].endswith("Z")


def test_on_a_terminal_lines_are_for_people_and_without_escape_codes_unless_colour_is_wanted() -> None:
    stream = Terminal()
    configure(LogSettings(), stream)
    structlog.get_logger("lifebus.test").info("something_happened", count=3)
    assert "something_happened" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    coloured = Terminal()
    configure(LogSettings(), coloured, color=True)
    structlog.get_logger("lifebus.test").info("something_happened")
    assert "\x1b[" in coloured.getvalue()


@pytest.mark.parametrize(
    "key",
    [
        *("authorization", "Authorization", "token", "access_token", "secret", "client_secret", "password", "passwd"),
        *("cookie", "set_cookie", "api_key", "key", "private_key", "credentials"),
        *("body", "payload", "payloads", "stdin", "stdout", "content", "text"),
    ],
)
def test_secrets_and_bodies_never_reach_the_log_at_any_depth(key: str) -> None:
    line = json.dumps(logged(**{key: "canary"}, nested={"list": [{key: "canary"}]}))
    assert "canary" not in line
    assert line.count("[removed]") == 2


def test_an_idempotency_key_and_a_payload_id_are_no_secrets() -> None:
    line = logged(idempotency_key="idem_1", payload_id="pay_1", body_bytes=7)
    assert (line["idempotency_key"], line["payload_id"], line["body_bytes"]) == ("idem_1", "pay_1", 7)


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_hostile_id_cannot_forge_a_line_or_steer_the_terminal(style: Any) -> None:
    stream = io.StringIO()
    configure(LogSettings(format=style), stream)
    hostile = 'x"}\n{"event": "forged"}\r\x1b[2J\u202e\ud800'
    structlog.get_logger().warning("refused", session=hostile, **{"k\n\x1b": b"\xff\n"})
    assert stream.getvalue().count("\n") == 1
    assert not any(sign in stream.getvalue() for sign in "\r\x1b\u202e\ud800")


def test_a_long_value_is_cut_and_a_deep_one_is_not_followed() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"in": deep}
    line = json.dumps(logged(long="x" * 100_000, deep=deep))
    assert len(line) < 4_000
    assert "[too deep]" in line


def test_an_exception_keeps_its_traceback_in_one_json_line() -> None:
    stream = io.StringIO()
    configure(LogSettings(), stream)
    try:
        int("odd\x1b[31m")
    except ValueError:
        structlog.get_logger().exception("failed")
    line = json.loads(stream.getvalue())
    assert line["exception"].startswith("Traceback")
    assert "ValueError: invalid literal" in line["exception"]
    assert "\x1b" not in line["exception"]


def test_lines_below_the_level_are_not_written() -> None:
    stream = io.StringIO()
    configure(LogSettings(level="warning"), stream)
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["loud"]


def test_a_flood_of_one_event_is_dropped_counted_and_reported_while_others_pass() -> None:
    stream, clock = io.StringIO(), Clock()
    limit = configure(LogSettings(), stream, clock=clock)
    log = structlog.get_logger()
    for _ in range(1_000):
        log.info("frame_refused")
    log.info("other")
    clock.now = 11.0
    log.info("later")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    events = [line["event"] for line in lines]
    assert (events.count("frame_refused"), events.count("other"), limit.dropped) == (50, 1, 950)
    assert lines[-1]["suppressed"] == {"frame_refused": 950}


def test_a_flood_of_different_names_is_bounded_too() -> None:
    limit = RateLimit(Clock(), burst=1)
    passed = 0
    for number in range(5_000):
        try:
            limit(None, "info", {"event": f"name {number}"})
            passed += 1
        except structlog.DropEvent:
            pass
    assert passed == 513


def test_a_reader_that_hung_up_does_not_stop_the_program() -> None:
    configure(LogSettings(), Broken())
    structlog.get_logger().info("still here")
