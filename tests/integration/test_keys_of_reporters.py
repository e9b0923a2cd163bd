"""An emitter gets the same receipts again for its key, also when the clients that answered have left meanwhile."""

import pytest

from lifebus_broker.ports import EMITTER
from lifebus_contract import CallbackResponse, DispatchEnvelope, Emission, LifecycleEvent, StateConflict
from support.integration.following import frame, recorded
from support.running import connected, running_bus, short_directory


async def answer(_: DispatchEnvelope) -> CallbackResponse:
    return CallbackResponse.ok()


@pytest.mark.parametrize("backend", ["sqlite", "memory"])
async def test_a_fact_that_clients_answered_is_not_recorded_again_when_they_have_left(backend: str) -> None:
    async with running_bus(backend=backend) as daemon, connected(daemon) as bus:
        client = daemon.bus.register("reader", [LifecycleEvent.SESSION_STARTED], answer)
        fact = frame()
        first = await bus.emit(fact)
        daemon.bus.clients.remove(client)
        again = await bus.emit(fact)
        assert [one.client_id for one in first.receipts] == ["reader"]
        assert (again.receipts, again.replayed) == (first.receipts, True)
        assert len(await recorded(daemon)) == 1


async def test_it_is_known_after_a_restart_without_the_clients() -> None:
    fact = frame()
    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            daemon.bus.register("reader", [LifecycleEvent.SESSION_STARTED], answer)
            first = await bus.emit(fact)
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            again = await bus.emit(fact)
            assert (again.receipts, again.replayed) == (first.receipts, True)
            assert await daemon.bus.ledger.verify() == []


async def test_a_late_copy_of_a_dispatched_fact_is_the_same_fact() -> None:
    async with running_bus() as daemon:
        daemon.bus.register("reader", [LifecycleEvent.SESSION_STARTED], answer)
        fact = Emission(request=frame())
        (first,) = await daemon.bus.emit("hook", [fact])
        (late,) = await daemon.bus.emit("hook", [fact], dispatch=False)
        assert [one.receipt for one in late.stored] == [one.receipt for one in first.stored]
        assert late.replayed


async def test_a_client_that_joined_between_two_tries_is_asked_and_the_other_is_not() -> None:
    asked: list[str] = []

    async def note(envelope: DispatchEnvelope) -> CallbackResponse:
        asked.append(envelope.request.event_id)
        return CallbackResponse.ok()

    async with running_bus() as daemon, connected(daemon) as bus:
        fact = frame()
        daemon.bus.register("early", [LifecycleEvent.SESSION_STARTED], note)
        await bus.emit(fact)
        daemon.bus.register("joined", [LifecycleEvent.SESSION_STARTED], note)
        again = await bus.emit(fact)
        assert sorted(one.client_id for one in again.receipts) == ["early", "joined"]
        assert len(asked) == 2
        assert await daemon.bus.ledger.verify() == []


async def test_other_content_under_the_reporters_key_is_a_conflict() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        client = daemon.bus.register("reader", [LifecycleEvent.SESSION_STARTED], answer)
        fact = frame()
        first = await bus.emit(fact)
        daemon.bus.clients.remove(client)
        with pytest.raises(StateConflict) as refused:
            await bus.emit(frame(idempotency_key=fact.idempotency_key, event_id="evt_other"))
        assert refused.value.code == "duplicate_id_conflict"
        assert first.receipts[0].telemetry_summary[EMITTER] == "test"
