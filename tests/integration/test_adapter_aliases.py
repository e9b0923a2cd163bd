"""Adapters by other names of their harnesses: one adapter wherever it is named, and whoever names it is told."""

import anyio
import pytest
from msgspec import structs

import lifebus
from lifebus_adapters import ADAPTERS, ALIASES
from lifebus_contract import (
    CallbackResponse,
    CapabilityRequest,
    DispatchEnvelope,
    Receipt,
    RequirementLevel,
    encode_json,
)
from lifebus_transports.adapter_names import adapter_id_of
from lifebus_transports.built_in import BUILT_IN
from lifebus_transports.messages.reads import Backfill
from support.integration.serving import serving
from support.patience import PATIENCE_S
from support.running import connected, running_bus

SESSION = ("claude", "s1")
BY_ALIAS = ("claude-code", "s1")


def test_the_ids_that_are_known_without_the_adapters_are_theirs() -> None:
    assert set(BUILT_IN) == set(ADAPTERS)


def test_each_alias_stands_for_one_adapter_and_is_not_one_plain_word() -> None:
    assert set(ALIASES.values()) == set(ADAPTERS)
    assert not set(ALIASES) & set(ADAPTERS)
    assert len(ALIASES) == sum(len(harness.aliases) for harness in ADAPTERS.values())
    # `adapter_id_of` does not look for plain words at all.
    assert [alias for alias in ALIASES if alias.isalnum()] == []
    assert {alias: adapter_id_of(alias) for alias in ALIASES} == ALIASES
    assert [adapter_id_of(name) for name in ("claude", "Claude-Code", "my-agent")] == [
        "claude",
        "Claude-Code",
        "my-agent",
    ]


@pytest.mark.parametrize("alias", ["claude-code", "claude_code"])
async def test_an_event_by_an_alias_is_the_adapters_and_its_receipt_says_so(alias: str) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        named = await bus.emit(lifebus.make_request("session.started", alias, session="s1", idempotency_key="k"))
        (receipt,) = named.receipts
        assert (receipt.adapter_id, receipt.sequence) == ("claude", 1)
        assert [(one.code, one.message) for one in receipt.warnings] == [
            ("adapter_alias", f"`{alias}` is the adapter `claude`")
        ]


async def test_a_key_that_comes_again_by_an_alias_is_a_replay() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        fact = lifebus.make_request("session.started", "claude", session="s1")
        first = await bus.emit(fact)
        again = await bus.emit(structs.replace(fact, adapter_id="claude_code"))
        assert again.replayed
        assert [encode_json(one) for one in again.receipts] == [encode_json(one) for one in first.receipts]


async def test_every_question_that_names_an_adapter_takes_an_alias() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await bus.emit(lifebus.make_request("session.started", "claude", session="s1"))
        (head,) = await bus.sessions(BY_ALIAS)
        assert (head.adapter_id, head.harness_session_id) == SESSION
        assert len((await bus.read(Backfill(session=BY_ALIAS))).rows) == 1
        assert len((await bus.read(Backfill(adapter_id="claude-code"))).rows) == 1
        wanted = CapabilityRequest(capability="harness_session_id", level=RequirementLevel.REQUIRED)
        assert (await bus.negotiate("claude-code", [wanted])).adapter_id == "claude"
        assert (await bus.tick("claude-code")).receipts[0].adapter_id == "claude"


async def test_followers_and_clients_by_an_alias_get_the_adapters_events() -> None:
    asked: list[str] = []

    async def answer(dispatch: DispatchEnvelope) -> CallbackResponse:
        asked.append(dispatch.request.adapter_id)
        return CallbackResponse.ok()

    async with running_bus() as daemon, connected(daemon) as bus, connected(daemon, "worker") as worker:
        async with serving(worker, answer, adapters=["claude-code"]):
            following = bus.receipts(session=BY_ALIAS, since="start")
            await following.join()
            for adapter in ("codex", "claude", "claude_code"):
                await bus.emit(lifebus.make_request("session.started", adapter, session="s1"))
            with anyio.fail_after(PATIENCE_S):
                found = [await anext(following) for _ in range(2)]
            await following.aclose()
        assert [(one.adapter_id, one.client_id) for one in found if isinstance(one, Receipt)] == [
            ("claude", "worker"),
            ("claude", "worker"),
        ]
        assert asked == ["claude", "claude"]
