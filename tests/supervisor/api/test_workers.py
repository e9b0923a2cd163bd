"""Workers and their leases: who serves as whom, who is gone, and who has taken whose place."""

import pytest

from lifebus_broker.routing.clients import ClientTable
from lifebus_contract import LifecycleEvent, StateConflict
from lifebus_supervisor.api.workers import LEASE_S, Workers
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.workers import Serve
from support.supervisor.peers import FakeCall, FakePeer

STARTED, ENDED = LifecycleEvent.SESSION_STARTED, LifecycleEvent.SESSION_ENDED


class FailedPeers:
    """Stands for the dispatches under way: notes whose were given up."""

    def __init__(self) -> None:
        self.peers: list[str] = []

    def fail(self, peer: str) -> None:
        self.peers.append(peer)


class Registrations:
    """Workers with a clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.clients = ClientTable()
        self.failed = FailedPeers()
        self.time = 100.0
        self.workers = Workers(self.clients, self.failed, lambda: self.time)  # type: ignore[arg-type]

    def leave(self, peer: str) -> None:
        self.workers.leave(FakeCall(FakePeer(peer)), Nothing())

    def serve(self, peer: str, client_id: str = "w", event: LifecycleEvent = STARTED) -> None:
        self.workers.serve(FakeCall(FakePeer(peer)), Serve(client_id=client_id, events=(event,), deadline_ms=1_500))

    @property
    def served(self) -> list[str]:
        return [client.client_id for client in self.clients.all()]


def test_a_worker_is_registered_as_its_body_says() -> None:
    found = Registrations()
    found.serve("a")
    (client,) = found.clients.all()
    assert (client.client_id, client.kind, client.events, client.deadline) == ("w", "worker", frozenset({STARTED}), 1.5)
    assert found.clients.interested_in(STARTED, "codex") == [client]


def test_repeating_the_body_renews_the_lease_and_changes_nothing() -> None:
    found = Registrations()
    found.serve("a")
    first = found.clients.all()
    for _ in range(5):
        found.time += LEASE_S
        found.serve("a")
        found.workers.sweep()
    assert found.clients.all() == first
    assert found.failed.peers == []


def test_a_worker_that_is_silent_for_longer_than_its_lease_is_dropped_with_what_it_owes() -> None:
    found = Registrations()
    found.serve("a", "one")
    found.time += LEASE_S - 0.5
    found.serve("b", "two")
    found.time += 1.0
    found.workers.sweep()
    assert (found.served, found.failed.peers) == (["two"], ["a"])


def test_exactly_its_lease_is_not_too_long() -> None:
    found = Registrations()
    found.serve("a")
    found.time += LEASE_S
    found.workers.sweep()
    assert found.served == ["w"]


def test_a_worker_with_another_body_is_registered_anew() -> None:
    found = Registrations()
    found.serve("a")
    found.serve("a", event=ENDED)
    assert found.served == ["w"]
    assert found.clients.interested_in(STARTED, "codex") == ()
    assert len(found.clients.interested_in(ENDED, "codex")) == 1


def test_the_newest_peer_keeps_a_name_and_the_old_one_is_refused() -> None:
    found = Registrations()
    found.serve("a")
    found.serve("b")
    assert found.failed.peers == ["a"]
    with pytest.raises(StateConflict, match="another worker serves as `w` now"):
        found.serve("a")
    found.serve("b")
    assert found.served == ["w"]


def test_the_end_of_a_replaced_connection_does_not_take_its_successor_away() -> None:
    found = Registrations()
    found.serve("a")
    found.serve("b")
    found.leave("a")
    assert found.served == ["w"]
    found.time += LEASE_S + 1
    found.serve("b")
    found.workers.sweep()
    assert found.served == ["w"]


def test_a_worker_that_leaves_is_gone_at_once() -> None:
    found = Registrations()
    found.serve("a")
    found.leave("a")
    found.leave("a")
    found.leave("stranger")
    assert (found.served, found.failed.peers) == ([], ["a"])


def test_a_place_that_has_become_free_can_be_taken_again() -> None:
    found = Registrations()
    found.serve("a")
    found.leave("a")
    found.serve("a")
    assert found.served == ["w"]
