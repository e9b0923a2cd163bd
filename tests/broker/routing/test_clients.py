"""The table of callback clients."""

from lifebus_broker.routing.clients import CallbackClient, ClientTable, FunctionInvoker
from lifebus_contract import LifecycleEvent
from support.bus_box import answering

STARTED, ENDED = LifecycleEvent.SESSION_STARTED, LifecycleEvent.SESSION_ENDED


def client(name: str, *events: LifecycleEvent, adapters: tuple[str, ...] = ()) -> CallbackClient:
    return CallbackClient(
        client_id=name,
        events=frozenset(events),
        invoker=FunctionInvoker(answering()),
        adapters=frozenset(adapters),
    )


def table(*clients: CallbackClient) -> ClientTable:
    made = ClientTable()
    for one in clients:
        made.add(one)
    return made


def test_clients_are_found_by_event_and_adapter_in_the_order_they_came() -> None:
    one, other = client("one", STARTED), client("other", STARTED, ENDED, adapters=("codex",))
    clients = table(one, other)
    assert list(clients.interested_in(STARTED, "codex")) == [one, other]
    assert list(clients.interested_in(STARTED, "claude")) == [one]
    assert list(clients.interested_in(ENDED, "codex")) == [other]
    assert list(clients.interested_in(LifecycleEvent.FRAME_OPENED, "codex")) == []


def test_a_client_that_comes_again_replaces_itself() -> None:
    old, new = client("one", STARTED), client("one", ENDED)
    clients = table(old)
    assert clients.add(new) is old
    assert clients.all() == (new,)
    assert list(clients.interested_in(STARTED, "codex")) == []


def test_a_client_that_was_replaced_cannot_take_its_successor_away() -> None:
    old, new = client("one", STARTED), client("one", STARTED)
    clients = table(old, new)
    assert not clients.remove(old)
    assert list(clients.interested_in(STARTED, "codex")) == [new]
    assert clients.remove(new)
    assert not clients.remove(new)
    assert clients.all() == ()
