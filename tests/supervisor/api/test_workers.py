"""Workers and their leases: who serves as whom, who is gone, and who has taken whose place."""

import pytest

from lifebus_broker.routing.clients import ClientTable
from lifebus_contract import LifecycleEvent, StateConflict
from lifebus_supervisor.api.workers import LEASE_S, Workers
from lifebus_transports.messages.workers import Serve
from lifebus_transports.zmq.requests import Caller

STARTED, ENDED = LifecycleEvent.SESSION_STARTED, LifecycleEvent.SESSION_ENDED


class FailedPeers:
    """Stands for the dispatches under way: notes whose were given up."""

    def __init__(self) -> None:
        self.peers: list[bytes] = []

    def fail(self, peer: bytes) -> None:
        self.peers.append(peer)


class Shop:
    """Workers with a clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.clients = ClientTable()
        self.failed = FailedPeers()
        self.time = 100.0
        self.workers = Workers(self.clients, self.failed, lambda: self.time)  # type: ignore[arg-type]

    def serve(self, peer: bytes, client_id: str = "w", event: LifecycleEvent = STARTED) -> None:
        self.workers.serve(Caller(peer, 1), Serve(client_id=client_id, events=(event,), deadline_ms=1_500))

    @property
    def served(self) -> list[str]:
        return [client.client_id for client in self.clients.all()]


def test_a_worker_is_registered_as_it_wishes() -> None:
    shop = Shop()
    shop.serve(b"a")
    (client,) = shop.clients.all()
    assert (client.client_id, client.kind, client.events, client.deadline) == ("w", "worker", frozenset({STARTED}), 1.5)
    assert shop.clients.wanting(STARTED, "codex") == [client]


def test_repeating_the_wish_renews_the_lease_and_changes_nothing() -> None:
    shop = Shop()
    shop.serve(b"a")
    first = shop.clients.all()
    for _ in range(5):
        shop.time += LEASE_S
        shop.serve(b"a")
        shop.workers.sweep()
    assert shop.clients.all() == first
    assert shop.failed.peers == []


def test_a_worker_that_is_silent_for_longer_than_its_lease_is_dropped_with_what_it_owes() -> None:
    shop = Shop()
    shop.serve(b"a", "one")
    shop.time += LEASE_S - 0.5
    shop.serve(b"b", "two")
    shop.time += 1.0
    shop.workers.sweep()
    assert (shop.served, shop.failed.peers) == (["two"], [b"a"])


def test_exactly_its_lease_is_not_too_long() -> None:
    shop = Shop()
    shop.serve(b"a")
    shop.time += LEASE_S
    shop.workers.sweep()
    assert shop.served == ["w"]


def test_a_worker_that_changes_its_wish_is_registered_anew() -> None:
    shop = Shop()
    shop.serve(b"a")
    shop.serve(b"a", event=ENDED)
    assert shop.served == ["w"]
    assert shop.clients.wanting(STARTED, "codex") == ()
    assert len(shop.clients.wanting(ENDED, "codex")) == 1


def test_the_newest_connection_keeps_a_name_and_the_old_one_is_told() -> None:
    shop = Shop()
    shop.serve(b"a")
    shop.serve(b"b")
    assert shop.failed.peers == [b"a"]
    with pytest.raises(StateConflict, match="another worker serves as `w` now"):
        shop.serve(b"a")
    shop.serve(b"b")
    assert shop.served == ["w"]


def test_the_end_of_a_replaced_connection_does_not_take_its_successor_away() -> None:
    shop = Shop()
    shop.serve(b"a")
    shop.serve(b"b")
    shop.workers.leave(Caller(b"a", 1))
    assert shop.served == ["w"]
    shop.time += LEASE_S + 1
    shop.serve(b"b")
    shop.workers.sweep()
    assert shop.served == ["w"]


def test_a_worker_that_says_goodbye_is_gone_at_once() -> None:
    shop = Shop()
    shop.serve(b"a")
    shop.workers.leave(Caller(b"a", 2))
    shop.workers.leave(Caller(b"a", 3))
    shop.workers.leave(Caller(b"stranger", 1))
    assert (shop.served, shop.failed.peers) == ([], [b"a"])


def test_a_place_that_has_become_free_can_be_taken_again() -> None:
    shop = Shop()
    shop.serve(b"a")
    shop.workers.leave(Caller(b"a", 1))
    shop.serve(b"a")
    assert shop.served == ["w"]
