"""`lifebus cloudevents` against the specification, a real server that fails, a kill, and tries without an end."""

import json
import re
import signal
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec
import pytest
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent as SpecifiedEvent
from hypothesis import given
from hypothesis import strategies as st

import lifebus.blocking
from lifebus.cli.relays.cloudevent_format import batches, check_source, event_of
from lifebus_contract import encode_json
from lifebus_contract.consumers import MAX_TRIES
from support.command_line import Shell, broker_up
from support.fork_server import Process
from support.histories import history
from support.inbox.http_receiver import Post, receiving
from support.running import short_directory

AGAIN = {"Retry-After": "0"}
ATTRIBUTE = re.compile("[a-z0-9]{1,20}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def check(event: dict[str, Any]) -> dict[str, Any]:
    """Hold an event against the rules of CloudEvents 1.0.2, by its own library and by what that leaves out."""
    attributes = {name: value for name, value in event.items() if name != "data"}
    read = JSONFormat().read(SpecifiedEvent, json.dumps(event))
    assert (read.get_id(), read.get_source(), read.get_type()) == (event["id"], event["source"], event["type"])
    assert attributes["specversion"] == "1.0"
    assert [name for name in attributes if not ATTRIBUTE.fullmatch(name)] == []
    assert [value for value in attributes.values() if not isinstance(value, str) or not value] == []
    assert [value for value in attributes.values() if not str(value).isprintable()] == []
    assert TIME.fullmatch(event["time"])
    assert event["datacontenttype"] == "application/json"
    receipt: dict[str, Any] = event["data"]
    assert (event["id"], event["type"]) == (receipt["receipt_id"], f"lifebus.{receipt['event']}")
    assert event.get("subject") == receipt["harness_session_id"]
    return event


def of_ledger(shell: Shell) -> list[dict[str, Any]]:
    """Return every receipt of the ledger's file, in order."""
    with closing(sqlite3.connect(shell.directory / "state/ledger.db")) as ledger:
        return [json.loads(body) for (body,) in ledger.execute("SELECT receipt FROM rows ORDER BY position")]


def emit(shell: Shell, count: int, session: str = "s1") -> None:
    """Have some receipts recorded."""
    with lifebus.blocking.connect("filler", runtime_dir=shell.directory / "run") as bus:
        for _ in range(count):
            bus.emit(lifebus.make_request("session.started", "codex", session=session))


def events_of(posts: list[Post]) -> list[dict[str, Any]]:
    """Return the events of posts, in order."""
    documents = [json.loads(post.body) for post in posts]
    return [check(event) for found in documents for event in (found if isinstance(found, list) else [found])]


def firsts(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the receipts of events, of those that came again the first."""
    return [event["data"] for event in {event["id"]: event for event in reversed(events)}.values()][::-1]


@contextmanager
def sending(shell: Shell, *words: str) -> Generator[Process]:
    """`lifebus cloudevents` while it runs, ready at the beginning of the block."""
    with shell.started("cloudevents", *words) as process:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        assert line.startswith("sending to"), line
        yield process


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """A shell beside a broker."""
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            yield shell


@pytest.mark.parametrize("seed", range(3))
def test_every_receipt_is_an_event_of_the_specification(seed: int) -> None:
    receipts = [encode_json(entry.receipt) for entry in history(seed, 200)]
    events = [event_of(raw, "e1", number, "https://me.example/bus") for number, raw in enumerate(receipts, 9_995)]
    found = [check(json.loads(msgspec.json.encode(event))) for event in events]
    assert [event["data"] for event in found] == [json.loads(raw) for raw in receipts]
    # The order of texts is that of the ledger.
    assert sorted(found, key=lambda event: event["sequence"]) == found
    assert {event["source"] for event in found} <= {
        f"https://me.example/bus/{adapter}"
        for adapter in ("claude", "codex", "gemini", "opencode", "hermes", "openclaw")
    }


@given(st.integers(1, 3_000), st.integers(0, 20))
def test_batches_have_everything_and_stay_small(most: int, count: int) -> None:
    raw = encode_json(history(1, 200)[0].receipt)
    events = [event_of(raw, "e1", number) for number in range(count)]
    found = batches(events, most)
    lists = [json.loads(body) for _, body in found]
    assert [event["sequence"] for part in lists for event in part] == [event.sequence for event in events]
    assert all(len(body) <= most or len(part) == 1 for (_, body), part in zip(found, lists, strict=True))


@pytest.mark.parametrize("text", ["", "a b", "\n", "<>", "ü", "x" * 513])
def test_a_source_that_is_no_uri_is_refused(text: str, shell: Shell) -> None:
    with pytest.raises(ValueError, match="no URI"):
        check_source(text)
    assert shell.call("cloudevents", "--source", text or " ").code == 2


def test_a_server_that_fails_and_a_kill_lose_nothing(shell: Shell) -> None:
    emit(shell, 6)
    with receiving() as receiver:
        words = ("--name", "w1", "--from", "start", "--webhook", receiver.url)
        # Every second post fails, and from the seventh on all do, until the command is killed.
        receiver.answer = lambda number: (503, AGAIN) if number % 2 or number > 6 else (204, {})
        with sending(shell, *words) as process:
            for _ in range(8):
                receiver.next()
            process.kill()
            process.wait()
        emit(shell, 4)
        receiver.answer = lambda _: (200, {})
        with sending(shell, *words):
            while len(firsts(events_of(receiver.posts))) < len(of_ledger(shell)):
                receiver.next()
        assert firsts(events_of(receiver.posts)) == of_ledger(shell)
        assert {post.headers["content-type"] for post in receiver.posts} == {
            "application/cloudevents+json; charset=utf-8"
        }
        assert all(post.headers["webhook-id"] == json.loads(post.body)["id"] for post in receiver.posts)


def test_batches_are_posted_in_order_under_a_source_of_ones_own(shell: Shell) -> None:
    emit(shell, 20, "many")
    with receiving() as receiver:
        receiver.answer = lambda number: (500, AGAIN) if number == 1 else (204, {})
        words = ("--name", "w2", "--from", "start", "--batch", "8", "--webhook", receiver.url)
        with sending(shell, *words, "--source", "https://me.example/", "--event", "session.started"):
            wanted = [one for one in of_ledger(shell) if one["event"] == "session.started"]
            while len(firsts(events_of(receiver.posts))) < len(wanted):
                receiver.next()
        events = events_of(receiver.posts)
        assert firsts(events) == wanted
        assert {event["source"] for event in events} == {"https://me.example/codex"}
        sizes = [len(json.loads(post.body)) for post in receiver.posts]
        assert (max(sizes) <= 8, len(sizes) < len(wanted)) == (True, True)
        assert receiver.posts[0].headers["content-type"] == "application/cloudevents-batch+json; charset=utf-8"


def test_lines_go_on_where_the_last_command_ended(shell: Shell) -> None:
    emit(shell, 3, "lines")
    found: list[dict[str, Any]] = []
    for _ in range(2):
        with sending(shell, "--name", "w3", "--from", "start") as process:
            assert process.stdout is not None
            emit(shell, 1, "lines")
            while len(firsts(found)) < len(of_ledger(shell)):
                found.append(check(json.loads(process.stdout.readline())))
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
    # What was acknowledged before the stop does not come again.
    assert [event["data"] for event in found] == of_ledger(shell)


def test_no_receipt_is_given_up_however_often_the_command_was_started(shell: Shell) -> None:
    emit(shell, 1, "tried")
    with (
        lifebus.blocking.connect("w4", runtime_dir=shell.directory / "run") as bus,
        bus.consume("w4", lifebus.ConsumerSettings(max_in_flight=1, retry_ms=1), since="start") as deliveries,
    ):
        while (one := next(deliveries)).attempt < MAX_TRIES - 1:
            deliveries.nack((one,), 0)
    with receiving() as receiver, sending(shell, "--name", "w4", "--webhook", receiver.url):
        while len(firsts(events_of(receiver.posts))) < len(of_ledger(shell)):
            receiver.next()
    assert shell.call("clients", "dead", "w4").out == ""


def test_what_cannot_be_asked_for_is_refused(shell: Shell) -> None:
    for words, why in (
        (("--batch", "0"), "--batch"),
        (("--batch", "8"), "--webhook"),
        (("--secret-file", "x"), "--webhook"),
        (("--webhook", "http://example.org/"), "this machine"),
        (("--webhook", "https://a.example", "--send-timeout", "1h"), "--send-timeout"),
    ):
        ran = shell.call("cloudevents", *words)
        assert (ran.code, why in ran.err) == (2, True), ran.err


def test_an_export_has_the_same_events(shell: Shell) -> None:
    ran = shell.call("receipts", "export", "--format", "cloudevents")
    assert [check(event)["data"] for event in ran.lines] == of_ledger(shell)
