"""What could not be understood is one failed receipt; what observed nothing is published and not stored."""

from typing import Any

import pytest

from lifebus_broker.ports import Refusal, StoredReceipt
from lifebus_contract import AdapterUnavailable, Emission, FailureClass, LifecycleEvent, RetryClass
from lifebus_contract.codec import decode_receipt
from support.bus_box import NOW, answering, bus_box, emission, payload, receipts_of, recorded, request

TICK = LifecycleEvent.SUPERVISOR_TICK
NONSENSE = Refusal(failure_class=FailureClass.INVALID_REQUEST, detail="not JSON", code="malformed")


def tick(**fields: Any) -> Emission:
    return emission(event=TICK, **fields)


async def test_a_moment_that_cannot_be_understood_is_one_failed_receipt_and_asks_nobody() -> None:
    async with bus_box() as bus:
        client = bus.register("client", [TICK], answering())
        receipts = receipts_of(await bus.record_failure("hooks", tick(), NONSENSE))
        assert {name: (one.event, one.status) for name, one in receipts.items()} == {"hooks": (TICK, "failed")}
        failed = receipts["hooks"]
        assert (failed.failure_class, failed.retry_class) == ("invalid_request", RetryClass.DO_NOT_RETRY)
        assert [(one.code, one.message) for one in failed.warnings] == [("malformed", "not JSON")]
        assert (await recorded(bus), client.dispatched) == ([failed], 0)


async def test_the_same_failure_again_is_known_by_its_key() -> None:
    async with bus_box() as bus:
        broken = tick(idempotency_key="k1")
        first = await bus.record_failure("hooks", broken, NONSENSE)
        again = await bus.record_failure("hooks", broken, NONSENSE)
        assert (first.replayed, again.replayed, again.stored) == (False, True, first.stored)
        other = await bus.record_failure("hooks", Emission(request=request(idempotency_key="k1")), NONSENSE)
        assert other.refusal is not None
        assert other.refusal.failure_class is FailureClass.STATE_CONFLICT


async def test_a_failure_delivers_nothing_and_loses_nothing() -> None:
    async with bus_box() as bus:
        outcome = await bus.record_failure("hooks", emission(payload("hooks")), NONSENSE)
        assert outcome.deliveries == ()
        assert bus.capabilities.overrides("codex", "s1") == {}


@pytest.mark.parametrize("gone", ["adapter", "ledger"])
async def test_a_failure_that_cannot_be_recorded_is_a_refusal(gone: str) -> None:
    async with bus_box() as bus:
        if gone == "ledger":
            await bus.ledger.aclose()
        broken = tick(adapter_id="nobody") if gone == "adapter" else tick()
        outcome = await bus.record_failure("hooks", broken, NONSENSE)
        assert outcome.refusal is not None
        assert outcome.stored == ()


async def test_a_transient_receipt_is_published_with_neither_position_nor_sequence_and_not_stored() -> None:
    async with bus_box() as bus:
        stored: list[StoredReceipt] = []
        transient: list[StoredReceipt] = []
        bus.fanout.listen(stored.extend)
        bus.fanout.listen_transient(transient.append)
        receipt = bus.publish_transient("supervisor", tick())
        (one,) = transient
        assert (one.position, one.sequence, one.adapter_id, one.harness_session_id) == (0, None, "codex", "s1")
        assert decode_receipt(one.receipt) == receipt
        assert (receipt.client_id, receipt.event, receipt.status) == ("supervisor", TICK, "observed")
        assert (receipt.sequence, receipt.at_epoch_s) == (None, NOW)
        assert (stored, await recorded(bus), bus.fanout.transient) == ([], [], 1)


async def test_a_transient_receipt_of_an_adapter_that_nobody_knows_is_refused() -> None:
    async with bus_box() as bus:
        with pytest.raises(AdapterUnavailable, match="no adapter `nobody`"):
            bus.publish_transient("supervisor", tick(adapter_id="nobody"))
        assert bus.fanout.transient == 0
