"""Signals of the app-server: their names, their envelope, and the threads without signals."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus.observer.stream import AppServerStream
from lifebus_adapters.app_server.naming import event_type, normalize
from lifebus_adapters.app_server.reader import Observed
from lifebus_adapters.app_server.signals import iso_time
from support.adapters.app_server_recordings import (
    RECORDINGS,
    chunks_of,
    cut,
    feed,
    names,
    notice,
    read_messages,
    signals,
    started,
    thread,
    turn,
)
from support.paths import TESTS

METHODS: dict[str, str] = json.loads((TESTS / "data" / "app_server_methods.json").read_text())
"""Every method of the protocol as published and of version 0.163.0, with the name of its signal."""

ODD = {
    "HTTPServer/getURL": "http_server.get_url",
    "getURLFor/ID2Value": "get_url_for.id2_value",
    "item/v2Thing/x2Y": "item.v2_thing.x2_y",
    "account/gatewayOAuth/changed": "account.gateway_o_auth.changed",
    "mcpServer/oauthLogin/completed": "mcp_server.oauth_login.completed",
    "turn//started": "turn.unknown.started",
    "": "unknown",
    "/turn/started/": "unknown.turn.started.unknown",
    "___/x": "x",
    "___": "unknown",
    " turn / started ": "turn.started",
    "already_snake/kebab-case": "already_snake.kebab_case",
    "étage/naïveÄ": "tage.na_ve",
}


@pytest.mark.parametrize(("method", "name"), ODD.items())
def test_odd_methods_get_the_names_that_the_rule_gives(method: str, name: str) -> None:
    assert normalize(method) == name


def test_every_known_method_has_its_own_name() -> None:
    assert len(METHODS) > 98
    for method, name in METHODS.items():
        assert event_type(method, request=name.startswith("app_server.request.")) == name
    assert len(set(METHODS.values())) == len(METHODS)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_gives_exactly_its_signals(recording: Path) -> None:
    expected = Path(__file__).parent / "expected_signals" / f"{recording.stem}.txt"
    assert names(feed(AppServerStream(), chunks_of(recording))) == expected.read_text().splitlines()


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(RECORDINGS), st.lists(st.integers(1, 3_000), min_size=1, max_size=5))
def test_a_recording_gives_the_same_however_it_is_split(recording: Path, sizes: list[int]) -> None:
    whole = AppServerStream()
    split, pieces = AppServerStream(), list[Observed]()
    for direction, data, at_ms in chunks_of(recording):
        expected = whole.feed(direction, data, at_ms)
        pieces = [seen for piece in cut(data, sizes) for seen in split.feed(direction, piece, at_ms)]
        assert pieces == expected
    assert split.close({}) == whole.close({})
    assert split.counters == whole.counters


def test_the_envelope_has_the_documented_keys() -> None:
    request = {"id": 0, "method": "item/tool/call", "params": {"threadId": "t1", "turnId": "u1", "tool": "x"}}
    _, notification, asked = signals(
        read_messages(started("t1", name="Chat", projectId="p1"), turn("turn/started"), request)
    )
    session = {"id": "t1", "title": "Chat", "projectId": "p1"}
    assert notification == {
        "source": "app_server",
        "signalType": "notification",
        "eventType": "app_server.turn.started",
        "method": "turn/started",
        "receivedAt": "2026-11-21T21:36:40.000Z",
        "context": {"threadId": "t1", "turnId": "u1"},
        "params": {"threadId": "t1", "turn": {"id": "u1"}},
        "session": session,
    }
    assert list(asked) == [*notification, "requestId"]
    assert (asked["requestId"], asked["signalType"], asked["eventType"]) == (
        0,
        "request",
        "app_server.request.item.tool.call",
    )


def test_a_signal_without_a_thread_has_no_context_and_no_session() -> None:
    (signal,) = signals(read_messages({"method": "account/updated"}))
    assert signal["context"] == {"threadId": None, "turnId": None}
    assert (signal["params"], signal["session"]) == (None, None)
    assert "requestId" not in signal


@given(st.integers(0, 253_402_300_799_999))
def test_times_are_reported_as_everybody_writes_them(at_ms: int) -> None:
    moment = datetime.fromtimestamp(at_ms // 1_000, UTC)
    assert iso_time(at_ms) == f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1_000:03}Z"


@pytest.mark.parametrize(
    ("params", "context"),
    [
        ({"threadId": "a", "conversationId": "b", "thread": {"id": "c"}}, ("a", None)),
        ({"conversationId": "b", "thread": {"id": "c"}}, ("b", None)),
        ({"thread": {"id": "c"}, "turnId": "u", "turn_id": "v"}, ("c", "u")),
        ({"threadId": "a", "turn_id": "v", "turn": {"id": "w"}}, ("a", "v")),
        ({"threadId": "a", "turn": {"turnId": "w"}}, ("a", "w")),
        ({"threadId": "a", "turn": {"turn_id": "w"}, "item": {"turnId": "x"}}, ("a", "w")),
        ({"threadId": "a", "item": {"turnId": "x"}}, ("a", "x")),
        ({"threadId": "a", "item": {"turn_id": "x"}}, ("a", "x")),
        ({"threadId": "a", "item": {"parentTurnId": "y", "turn": {"id": "z"}}}, ("a", "y")),
        ({"threadId": "a", "item": {"parent_turn_id": "y"}}, ("a", "y")),
        ({"threadId": "a", "item": {"id": "i", "turn": {"id": "z"}}}, ("a", "z")),
        ({"threadId": "a", "item": {"id": "i", "turn": {"turn_id": "z"}}}, ("a", "z")),
        ({"threadId": 7, "conversationId": "", "thread": ["c"]}, (None, None)),
        ({"threadId": "x" * 257}, (None, None)),
        ([{"threadId": "a"}], (None, None)),
    ],
)
def test_thread_and_turn_are_found_wherever_they_stand(params: Any, context: tuple[str | None, str | None]) -> None:
    (signal,) = signals(read_messages({"method": "warning", "params": params}))
    assert (signal["context"]["threadId"], signal["context"]["turnId"]) == context


def test_a_signal_that_names_no_turn_gets_the_one_that_runs_in_its_thread() -> None:
    status = notice("thread/status/changed", threadId="t1")
    seen = signals(
        read_messages(status, turn("turn/started"), status, turn("turn/completed", status="completed"), status)
    )
    assert [one["context"]["turnId"] for one in seen] == [None, "u1", "u1", "u1", None]


def test_the_session_follows_the_names_that_the_server_gives() -> None:
    seen = signals(
        read_messages(
            started(),
            notice("thread/name/updated", threadId="t1", threadName="My chat"),
            notice("thread/project/updated", threadId="t1", projectId="p1"),
            ({"id": 5, "method": "thread/read", "params": {"threadId": "t1"}},),
            {"id": 5, "result": {"thread": thread(name="Read")}},
            notice("warning", threadId="t1"),
            notice("warning", threadId="other"),
        )
    )
    sessions = [one["session"] for one in seen]
    assert [one["title"] for one in sessions] == [None, "My chat", "My chat", "Read", None]
    assert sessions[2]["projectId"] == "p1"
    assert sessions[-1] == {"id": "other", "title": None, "projectId": None}


SYSTEM = [
    {"source": {"subAgent": "review"}},
    {"source": {"subAgent": {"thread_spawn": {"parent_thread_id": "t0", "depth": 1}}}},
    {"threadSource": "subagent"},
    {"threadSource": "memory_consolidation"},
    {"parentThreadId": "t0"},
    {"ephemeral": True},
    {"sessionId": "t0"},
]
USERS = [{}, {"source": {"custom": "editor"}}, {"threadSource": "user", "sessionId": "s0"}, {"forkedFromId": "t0"}]


@pytest.mark.parametrize("fields", SYSTEM)
def test_a_thread_that_the_server_started_for_itself_has_no_facts(fields: dict[str, Any]) -> None:
    approval = {"id": 0, "method": "item/commandExecution/requestApproval", "params": {"threadId": "t1"}}
    reader = AppServerStream()
    seen = read_messages(
        started("t1", **fields), turn("turn/started"), approval, notice("account/updated"), reader=reader
    )
    assert names(seen) == ["app_server.account.updated"]
    assert (len(seen), reader.close({}), reader.counters.withheld) == (1, [], 3)


HELLO = ({"id": "hello", "method": "initialize", "params": {}},)


def test_a_thread_that_no_message_named_is_the_servers_own_if_all_was_seen() -> None:
    unannounced = [notice("thread/status/changed", threadId="t9"), turn("turn/started", "t9")]
    assert names(read_messages(*unannounced)) == ["app_server.thread.status.changed", "app_server.turn.started"]
    reader = AppServerStream()
    assert read_messages(HELLO, *unannounced, reader=reader) == []
    assert reader.counters.withheld == 2
    reader.lose("in")
    assert len(names(read_messages(*unannounced, reader=reader))) == 2


def test_a_thread_that_a_client_asks_for_or_names_is_reported_before_its_record_comes() -> None:
    status = notice("thread/status/changed", threadId="t1")
    resume = ({"id": 1, "method": "thread/resume", "params": {"threadId": "t1"}},)
    assert names(read_messages(HELLO, resume, status)) == ["app_server.thread.status.changed"]
    fork = ({"id": 1, "method": "thread/fork", "params": {"threadId": "t0"}},)
    assert names(read_messages(HELLO, fork, status, {"id": 1, "error": {}}, status)) == [
        "app_server.thread.status.changed"
    ]


def test_a_sub_agent_that_a_turn_called_is_the_servers_own_though_its_start_was_missed() -> None:
    call = {"type": "collabAgentToolCall", "receiverThreadIds": ["t2", ""]}
    item = notice("item/completed", threadId="t1", turnId="u1", item=call)
    seen = read_messages(started(), item, turn("turn/started", "t2"), turn("turn/completed", "t2", status="completed"))
    assert names(seen) == ["app_server.thread.started", "app_server.item.completed"]


@pytest.mark.parametrize("fields", USERS)
def test_every_other_thread_is_reported(fields: dict[str, Any]) -> None:
    assert names(read_messages(started("t1", **fields))) == ["app_server.thread.started"]


def test_nothing_is_reported_of_a_deleted_thread_after_its_deletion() -> None:
    deleted = notice("thread/deleted", threadId="t1")
    reader = AppServerStream()
    seen = read_messages(started(), deleted, deleted, started(), turn("turn/started"), started("t2"), reader=reader)
    assert names(seen) == ["app_server.thread.started", "app_server.thread.deleted", "app_server.thread.started"]
    late = [({"id": 1, "method": "thread/resume"},), {"id": 1, "result": {"thread": thread("t1")}}]
    assert read_messages(*late, reader=reader) == []


def test_a_thread_known_from_an_answer_alone_keeps_its_isolation() -> None:
    answer = [({"id": "a", "method": "thread/fork"},), {"id": "a", "result": {"thread": thread(ephemeral=True)}}]
    assert read_messages(*answer, turn("turn/started")) == []


def test_bytes_of_the_client_are_no_signals() -> None:
    assert (
        read_messages(({"method": "initialized"},), ({"id": 1, "method": "turn/start"},), ({"id": 0, "result": {}},))
        == []
    )


def test_a_reader_remembers_no_more_threads_than_it_may() -> None:
    reader = AppServerStream()
    for number in range(5_000):
        read_messages(started(f"t{number}"), notice("thread/closed", threadId=f"t{number}"), reader=reader)
    assert len(names(read_messages(turn("turn/started", "t1"), reader=reader))) == 1
