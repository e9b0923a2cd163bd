"""A thread that lifebus has opened for a worker gives neither signals nor facts; the client's own do as before."""

import json
from typing import Any

from lifebus_adapters.app_server.facts import TurnSteered
from lifebus_adapters.app_server.reader import AppServerReader, FactSeen, Observed, SignalSeen


class Wire:
    """A reader, and lines of both directions."""

    def __init__(self) -> None:
        self.reader = AppServerReader()
        self.client(id=1, method="initialize", params={})
        self.server(id=1, result={})
        self.client(id=2, method="thread/start", params={})
        self.server(id=2, result={"thread": {"id": "t1", "cwd": "/srv/shop"}})

    def client(self, by: str | None = None, **message: Any) -> list[Observed]:
        return self.reader.read("in", json.dumps(message).encode(), 0, by)

    def server(self, **message: Any) -> list[Observed]:
        return self.reader.read("out", json.dumps(message).encode(), 0)

    def turn(self, thread: str) -> list[Observed]:
        """All that a turn gives, from its request on."""
        started = {"threadId": thread, "turn": {"id": "u", "status": "inProgress"}}
        ended = {"threadId": thread, "turn": {"id": "u", "status": "completed"}}
        return [
            *self.client("lifebus.worker", id="lifebus:1", method="turn/start", params={"threadId": thread}),
            *self.server(id="lifebus:1", result={"turn": {"id": "u"}}),
            *self.server(method="turn/started", params=started),
            *self.server(id=0, method="item/commandExecution/requestApproval", params={"threadId": thread}),
            *self.server(method="turn/completed", params=ended),
        ]


def test_a_thread_that_lifebus_opened_gives_nothing() -> None:
    wire = Wire()
    found = [
        *wire.client("lifebus.worker", id="lifebus:0", method="thread/start", params={}),
        *wire.server(id="lifebus:0", result={"thread": {"id": "w", "cwd": "/srv/shop"}}),
        *wire.server(method="thread/started", params={"thread": {"id": "w"}}),
        *wire.turn("w"),
        *wire.reader.close({"exit_code": 0}),
    ]
    assert {one.fact.session for one in found if isinstance(one, FactSeen)} == {"t1"}
    assert not [one for one in found if isinstance(one, SignalSeen) and one.thread == "w"]
    assert not wire.reader.has_thread("w")
    assert not [one for one in wire.reader.questions() if one.session == "w"]


def test_a_turn_that_lifebus_begins_in_the_clients_thread_gives_what_every_turn_does() -> None:
    wire = Wire()
    found = wire.turn("t1")
    assert [one.event_type for one in found if isinstance(one, SignalSeen)] == [
        "app_server.turn.started",
        "app_server.request.item.command_execution.request_approval",
        "app_server.turn.completed",
    ]
    assert [one.fact.by for one in found if isinstance(one, FactSeen) and isinstance(one.fact, TurnSteered)] == [
        "lifebus.worker"
    ]


def test_a_thread_that_the_observer_before_opened_gives_nothing_once_it_is_known_whose_it_is() -> None:
    reader = AppServerReader()
    reader.note_gap()
    wire = Wire.__new__(Wire)
    wire.reader = reader
    reader.adopt("w")
    assert wire.turn("w") == []


def test_the_directory_of_a_thread_is_known_from_its_record() -> None:
    wire = Wire()
    assert wire.reader.cwd_of("t1") == "/srv/shop"
    wire.server(method="thread/started", params={"thread": {"id": "t2", "cwd": "relative"}})
    assert wire.reader.has_thread("t2")
    assert wire.reader.cwd_of("t2") is None
    assert wire.reader.cwd_of("nobody's") is None
