"""Plans: what becomes of an emission before anybody is asked."""

import pytest

from lifebus_contract import CapabilityRequest, FailureClass, ReceiptStatus, RequirementLevel
from support.bus_box import EVENT, NOW, answering, bus_box, emission, payload

MISSING = CapabilityRequest(capability="session_rename", level=RequirementLevel.REQUIRED)


async def test_a_plain_fact_is_recorded_in_the_emitters_name_at_the_brokers_time() -> None:
    async with bus_box() as bus:
        plan = bus.router.plan("emitter", emission(), parent="lfr_before")
        assert plan.receipt is not None
        assert (plan.receipt.client_id, plan.receipt.at_epoch_s) == ("emitter", NOW)
        assert plan.receipt.parent_receipt_id == "lfr_before"
        assert (plan.refusal, plan.clients) == (None, ())


async def test_a_fact_that_clients_want_is_theirs_to_record() -> None:
    async with bus_box() as bus:
        client = bus.register("client", [EVENT], answering())
        plan = bus.router.plan("emitter", emission())
        assert (plan.receipt, list(plan.clients)) == (None, [client])


async def test_without_dispatch_the_fact_is_the_emitters_whoever_wants_it() -> None:
    async with bus_box() as bus:
        bus.register("client", [EVENT], answering())
        plan = bus.router.plan("emitter", emission(), dispatch=False)
        assert plan.receipt is not None
        assert plan.clients == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"adapter_id": "nobody"},
        {"adapter_version": "9.9"},
        {"adapter_id": "claude", "integration_mode": "reference_adapter"},
    ],
    ids=["unknown adapter", "other version", "mode not claimed"],
)
async def test_what_no_adapter_can_serve_is_refused_and_not_recorded(fields: dict[str, str]) -> None:
    async with bus_box() as bus:
        plan = bus.router.plan("emitter", emission(**fields))
        assert plan.refusal is not None
        assert plan.refusal.failure_class is FailureClass.ADAPTER_UNAVAILABLE
        assert plan.receipt is None


@pytest.mark.parametrize("bad", ["requirement", "payload", "foreign", "placement"])
async def test_an_emission_that_cannot_be_delivered_is_a_recorded_failure_that_asks_nobody(bad: str) -> None:
    nowhere = [{"placement": "side_channel_context", "requirement": "required"}]
    emissions = {
        "requirement": emission(requirements=[MISSING]),
        "payload": emission(payload(byte_size=1)),
        "foreign": emission(payload("somebody else")),
        "placement": emission(payload(acceptable_placements=nowhere)),
    }
    async with bus_box() as bus:
        bus.register("client", [EVENT], answering())
        plan = bus.router.plan("emitter", emissions[bad])
        assert plan.receipt is not None
        assert plan.receipt.status is ReceiptStatus.FAILED
        assert (plan.clients, plan.deliveries) == ((), ())
