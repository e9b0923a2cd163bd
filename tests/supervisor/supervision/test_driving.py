"""Whoever drives ticks gets back what they found, and whoever needs what was lost hears of it in its own name."""

from pathlib import Path

import pytest

from lifebus_adapters.shared.telemetry import Activity, Usage
from lifebus_contract import CallbackResponse, CapabilityRequest, DispatchEnvelope, Receipt, RequirementLevel
from lifebus_contract.codec import decode_receipt
from lifebus_supervisor.supervision.driving import drive
from lifebus_transports.messages.ticks import Tick
from support.supervisor.supervised import INTERVAL_S, SupervisedBus, supervised

SESSION = "s1"
START = {"hook_event_name": "SessionStart", "session_id": SESSION, "source": "startup"}


async def driven(rig: SupervisedBus, **asked: str) -> list[tuple[str, str | None]]:
    """What a driver gets: events and their sessions."""
    rig.clock.seconds += INTERVAL_S
    answer = await drive(rig.supervisor, rig.bus, Tick(client_id="driver", **asked))
    receipts = [decode_receipt(receipt) for receipt in answer.receipts]
    assert len(answer.positions) == len(receipts)
    return [(one.event.value, one.harness_session_id) for one in receipts if one.client_id != "driver"]


ASKED: list[tuple[dict[str, str], set[str]]] = [
    ({}, {"s1", "s2"}),
    ({"adapter_id": "codex", "session": "s2"}, {"s2"}),
    ({"adapter_id": "claude"}, set()),
]


@pytest.mark.parametrize(("asked", "wanted"), ASKED)
async def test_a_driver_gets_what_the_tick_found_of_what_it_asked_for(
    tmp_path: Path, asked: dict[str, str], wanted: set[str]
) -> None:
    async with supervised(tmp_path) as rig:
        for session in ("s1", "s2"):
            await rig.hook("codex", START | {"session_id": session})
            usage = Usage(session=session, used_tokens=70, used_source="x", window_tokens=100)
            rig.news("codex", session, usage)
        found = await driven(rig, **asked)
        assert {session for event, session in found if event == "context.pressure_observed"} == wanted


async def test_ticks_that_are_driven_alone_do_all_that_ticks_do(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await driven(rig)
        rig.dead |= {one.process.harness for one in rig.supervisor.monitors if one.process.harness is not None}
        found = [event for _ in range(3) for event, _ in await driven(rig)]
        assert "session.ended" in found


async def test_a_client_that_requires_what_a_session_lost_gets_a_receipt_of_its_own(tmp_path: Path) -> None:
    async def agree(_: DispatchEnvelope) -> CallbackResponse:
        return CallbackResponse.ok()

    need = CapabilityRequest(capability="context_pressure", level=RequirementLevel.REQUIRED)
    async with supervised(tmp_path) as rig:
        rig.bus.register("needy", [], agree, requirements=[need])
        await rig.hook("codex", START)
        rig.news("codex", SESSION, Activity(session=SESSION))
        await rig.tick()
        rig.news("codex", SESSION, grown=0, unreadable_run=3)
        recorded = {one.client_id: one for one in await rig.tick() if one.event == "capability.degraded"}
        assert set(recorded) == {"lifebus.supervisor", "needy"}
        own: Receipt = recorded["needy"]
        assert (own.status, own.failure_class) == ("failed", "capability_degraded")
        assert [one.capability for one in own.capability_degradations] == ["context_pressure"]
