"""Hook calls through the bus: recorded before they are answered, once however often they come; late ones ask nobody."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.adapter import HookCall
from lifebus_broker.ports import Query
from lifebus_contract import (
    SERVABLE_EVENTS,
    BrokerBusy,
    CallbackResponse,
    DispatchEnvelope,
    ReceiptStatus,
)
from lifebus_contract.codec import decode_receipt
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.hook_intake.calls import CLIENT_ID, HookCalls, ids_of_call
from support.running import running_bus

STARTED_MS = 1_700_000_000_123
STDIN = {
    "session_id": "s1",
    "transcript_path": "/t",
    "cwd": "/w",
    "hook_event_name": "SessionStart",
    "source": "startup",
    "model": "m",
    "permission_mode": "default",
}


def call(**changes: Any) -> HookCall:
    plain: Mapping[str, Any] = {
        "call_id": f"hook-{STARTED_MS:x}-1-1",
        "adapter_id": "codex",
        "hook": "SessionStart",
        "cwd": "/w",
        "env": {},
        "stdin": json.dumps(STDIN).encode(),
    }
    return HookCall(**{**plain, **changes})


def calls_of(daemon: Daemon) -> HookCalls:
    return HookCalls(daemon.bus, ADAPTERS, 1.0)


class Asked:
    """A callback client that counts how often it was asked."""

    def __init__(self, daemon: Daemon) -> None:
        self.times = 0
        daemon.bus.register("client", SERVABLE_EVENTS, self._handle, deadline=5.0)

    async def _handle(self, _: DispatchEnvelope) -> CallbackResponse:
        self.times += 1
        return CallbackResponse.ok()


async def test_a_call_is_durable_when_it_is_answered() -> None:
    async with running_bus() as daemon:
        answer = await calls_of(daemon).handle(call())
        head = daemon.bus.ledger.head
        (session,) = await daemon.bus.ledger.sessions()
    assert answer.exit_code == 0
    assert (session.adapter_id, session.harness_session_id, session.receipts) == ("codex", "s1", head)


async def test_the_facts_are_recorded_in_the_name_of_the_hook() -> None:
    async with running_bus() as daemon:
        await calls_of(daemon).handle(call())
        page = await daemon.bus.ledger.read(Query())
    assert {json.loads(one.receipt)["client_id"] for one in page.stored} == {CLIENT_ID}


async def test_the_same_call_again_records_nothing_and_asks_nobody() -> None:
    async with running_bus() as daemon:
        asked = Asked(daemon)
        await calls_of(daemon).handle(call())
        times, head = asked.times, daemon.bus.ledger.head
        await calls_of(daemon).handle(call())
        assert times > 0
        assert (asked.times, daemon.bus.ledger.head) == (times, head)


async def test_a_call_from_the_spool_is_recorded_as_late_and_nobody_is_asked_about_the_past() -> None:
    async with running_bus() as daemon:
        asked = Asked(daemon)
        answer = await calls_of(daemon).handle(call(spooled_at_epoch_s=1_700_000_000))
        page = await daemon.bus.ledger.read(Query())
    assert (asked.times, answer.stdout, answer.exit_code) == (0, b"", 0)
    assert page.stored
    assert all(json.loads(one.receipt)["status"] == ReceiptStatus.OBSERVED for one in page.stored)


async def test_a_call_that_came_in_time_and_again_from_the_spool_is_one_fact() -> None:
    async with running_bus() as daemon:
        await calls_of(daemon).handle(call())
        head = daemon.bus.ledger.head
        await calls_of(daemon).handle(call(spooled_at_epoch_s=1_700_000_000))
        assert daemon.bus.ledger.head == head


async def test_a_ledger_that_takes_nothing_makes_the_hook_keep_its_call() -> None:
    async with running_bus() as daemon:
        await daemon.bus.ledger.aclose()
        with pytest.raises(BrokerBusy):
            await calls_of(daemon).handle(call())


def test_ids_depend_on_the_call_alone_and_on_all_of_it() -> None:
    once, again, other = (ids_of_call(one) for one in (call(), call(), call(call_id=f"hook-{STARTED_MS:x}-1-2")))
    first = [once.make("evt_") for _ in range(3)]
    assert first == [again.make("evt_") for _ in range(3)]
    assert first[0] != other.make("evt_")


@pytest.mark.parametrize("call_id", ["", "x", "hook-", "hook-zz-1", "hook--1", "hook-" + "f" * 64, "-" * 100])
def test_a_call_id_of_any_form_gives_ids(call_id: str) -> None:
    made = ids_of_call(call(call_id=call_id)).make("evt_")
    assert len(made) == len("evt_") + 26
    assert made == ids_of_call(call(call_id=call_id)).make("evt_")


async def test_a_hook_that_names_its_harness_by_an_alias_is_the_adapters() -> None:
    async with running_bus() as daemon:
        await calls_of(daemon).handle(call(adapter_id="codex-cli"))
        page = await daemon.bus.ledger.read(Query())
        assert {one.adapter_id for one in page.stored} == {"codex"}
        warnings = [[one.code for one in decode_receipt(stored.receipt).warnings] for stored in page.stored]
        assert [codes.count("adapter_alias") for codes in warnings] == [1, 1]
