"""The broker's own threads at an app-server: what their turns come to, and what is answered there for nobody."""

import json
from typing import Any

import msgspec
import pytest

from lifebus.observer.own_threads import OwnThreads
from lifebus.observer.server_messages import ServerMessage
from lifebus.observer.steering_orders import OWNER_S, BrokerPresence
from lifebus_transports.messages.signals import MAX_TURN_TEXT, ObservedTurn
from lifebus_transports.messages.steering import SteeringState


class Watched:
    """A thread `w`, and what was reported of it."""

    def __init__(self) -> None:
        self.told: list[ObservedTurn] = []
        self.own = OwnThreads(self.told.append)
        self.own.add("w")

    def hear(self, method: str, number: object = None, **params: Any) -> None:
        text = json.dumps({"method": method, "id": number, "params": {"threadId": "w", **params}})
        self.own.see(msgspec.json.decode(text, type=ServerMessage))

    def begin(self, turn: str = "u") -> None:
        self.hear("turn/started", turn={"id": turn})

    def say(self, text: str, kind: str = "agentMessage") -> None:
        self.hear("item/completed", turnId="u", item={"type": kind, "text": text})

    def end(self, status: str = "completed", **more: Any) -> ObservedTurn:
        self.hear("turn/completed", turn={"id": "u", "status": status, **more})
        return self.told[-1]


def test_a_turn_is_reported_with_what_it_said_last() -> None:
    at = Watched()
    at.begin()
    at.say("first")
    at.say("thinking", "reasoning")
    at.say("last")
    assert at.own.state_of("w", "u") is SteeringState.PENDING
    assert at.end() == ObservedTurn(thread="w", turn="u", status="completed", text="last")
    assert [one.item for one in at.told[:-1]] == ["agentMessage", "reasoning", "agentMessage"]
    assert at.own.state_of("w", "u") is SteeringState.DONE
    assert at.own.state_of("w", "other") is SteeringState.ABSENT
    at.begin("v")
    assert at.own.running() == [("w", "v")]


def test_where_its_items_were_not_seen_the_end_of_the_turn_says_what_it_said() -> None:
    at = Watched()
    items = [{"type": "agentMessage", "text": "a"}, {"type": "agentMessage", "text": "b"}, {"type": "plan"}, 7]
    assert at.end(items=items).text == "b"


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600"])
def test_an_answer_that_is_too_long_says_so(letter: str) -> None:
    at = Watched()
    at.begin()
    at.say(letter * MAX_TURN_TEXT)
    end = at.end()
    assert len(end.text.encode()) <= MAX_TURN_TEXT
    assert end.cut is (letter != "x")
    assert set(end.text) == {letter}


@pytest.mark.parametrize(
    ("error", "text", "retryable"),
    [
        ({"message": "busy", "codexErrorInfo": "serverOverloaded"}, "busy", True),
        ({"message": "too long", "codexErrorInfo": "contextWindowExceeded"}, "too long", False),
        ({"message": "no", "codexErrorInfo": "unauthorized"}, "no", False),
        (None, "", False),
        ("text", "", False),
    ],
)
def test_why_a_turn_failed_and_whether_another_may_do_better_is_reported(
    error: object, text: str, retryable: bool
) -> None:
    end = Watched().end("failed", error=error)
    assert (end.status, end.error, end.retryable) == ("failed", text, retryable)


def test_a_turn_that_runs_when_its_server_ends_is_abandoned() -> None:
    at = Watched()
    at.begin()
    at.own.close(all_read=True)
    at.own.close(all_read=True)
    assert at.told == [ObservedTurn(thread="w", turn="u", status="abandoned")]


def test_a_turn_of_which_not_all_was_read_may_have_come_to_its_end() -> None:
    at = Watched()
    at.begin()
    at.own.close(all_read=False)
    assert at.told == [ObservedTurn(thread="w", turn="u", status="lost")]


def test_the_end_of_a_turn_that_was_given_up_is_not_reported_once_more() -> None:
    at = Watched()
    at.begin()
    at.own.close(all_read=False)
    at.end()
    assert [one.status for one in at.told] == ["lost"]


def test_the_answer_to_the_request_for_a_turn_may_be_read_behind_its_end() -> None:
    at = Watched()
    at.end()
    at.own.begun("w", "u")
    assert at.own.turn_of("w") is None
    at.own.begun("w", "v")
    assert at.own.turn_of("w") == "v"


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("item/commandExecution/requestApproval", {"result": {"decision": "decline"}}),
        ("item/fileChange/requestApproval", {"result": {"decision": "decline"}}),
        ("execCommandApproval", {"result": {"decision": {"denied": {"rejection": "declined"}}}}),
    ],
)
def test_approvals_are_declined(method: str, answer: dict[str, Any]) -> None:
    at = Watched()
    at.hear(method, 0)
    assert json.loads(at.own.refusals.popleft()) == {"id": 0, **answer}


def test_everything_else_that_is_asked_is_refused_and_what_others_are_asked_is_left_alone() -> None:
    at = Watched()
    at.hear("item/tool/requestUserInput", "seven")
    refusal = json.loads(at.own.refusals.popleft())
    assert (refusal["id"], refusal["error"]["code"]) == ("seven", -32600)
    at.hear("item/commandExecution/requestApproval", 1, threadId="somebody's")
    at.hear("item/commandExecution/requestApproval", 1, threadId=["w"])
    assert not at.own.refusals
    assert not at.told


def test_a_broker_is_gone_once_none_has_been_there_for_a_while() -> None:
    broker = BrokerPresence()
    broker.asked(0.0)
    assert not broker.is_gone(1_000.0)
    broker.lost(1_000.0)
    assert not broker.is_gone(1_000.0 + OWNER_S)
    for now in range(1, 40):  # asked again and again, and refused each time
        broker.asked(1_000.0 + now)
        broker.lost(1_000.5 + now)
    assert broker.is_gone(1_000.1 + OWNER_S)
    broker.asked(1_050.0)
    assert broker.is_gone(1_051.0)
    assert not broker.is_gone(1_054.0), "it has not been refused for so long that one is there"
    broker.lost(1_100.0)
    assert not broker.is_gone(1_100.0 + OWNER_S)
    assert broker.is_gone(1_100.1 + OWNER_S)
    broker.asked(1_200.0)
    assert broker.is_gone(1_200.1)
    broker.answered()
    assert not broker.is_gone(1_200.1), "it has given an order: what is begun now has an owner"
    broker.asked(1_200.2)
    broker.lost(1_200.3)
    assert not broker.is_gone(1_200.3 + OWNER_S)
    assert broker.is_gone(1_200.4 + OWNER_S)
