"""Conformance: who requires what a session lost gets the same answer wherever it asks (docs/contract.md 4.6)."""

from pathlib import Path

import pytest

import lifebus
from lifebus_broker.transitions import transition
from lifebus_contract import CapabilityRequest, Emission, LifecycleEvent, Receipt, RequirementLevel, SupportState
from support.integration.following import frame
from support.integration.serving import content, serving
from support.running import connected, running_bus
from support.supervisor.scripted import renewing

ALIKE = ("capability_degraded", "retry_after_reread")
OPENING = "event:frame.opening"
RESET = "renewal.reset.wrapper_mediated"
LEFT = pytest.mark.parametrize("left", ["manual", "unavailable"])


def needing(capability: str) -> CapabilityRequest:
    return CapabilityRequest(capability=capability, level=RequirementLevel.REQUIRED)


def loss(capability: str, left: str, session: str = "s1") -> Emission:
    """Return the report that a session of Codex lost a capability."""
    request = lifebus.make_request(LifecycleEvent.CAPABILITY_DEGRADED, "codex", session=session)
    change = transition(capability, SupportState.NATIVE, SupportState(left), at_epoch_s=7, evidence="seen by a test")
    return Emission(request=request, degradations=(change,))


def answer_in(receipt: Receipt) -> tuple[str | None, str | None]:
    return receipt.failure_class, receipt.retry_class


@LEFT
async def test_negotiation_dispatch_and_emission_answer_a_loss_alike(left: str) -> None:
    needs = needing(OPENING)
    async with running_bus() as daemon, connected(daemon, "worker") as worker, connected(daemon) as bus:
        async with serving(worker, content, requirements=[needs]):
            (at_once,) = [
                one for one in (await bus.emit(loss(OPENING, left))).receipts if one.client_id == worker.client_id
            ]
            (dispatch,) = (await bus.emit(frame())).receipts
            (client,) = await bus.clients()
        (emission,) = (await bus.emit(Emission(request=frame(), requirements=(needs,)))).receipts
        negotiation = await bus.negotiate("codex", [needs], session="s1")
        elsewhere = await bus.negotiate("codex", [needs], session="s2")
    assert {answer_in(one) for one in (at_once, dispatch, emission)} == {ALIKE}
    assert [one.warnings[0].code for one in (at_once, dispatch, emission)] == ["required_capability_lost"] * 3
    assert (negotiation.failure_class, negotiation.retry_class) == ALIKE
    assert (elsewhere.outcome, client.dispatched) == ("satisfied", 0)


@LEFT
async def test_a_renewal_answers_a_loss_as_the_others_do(tmp_path: Path, left: str) -> None:
    async with renewing(tmp_path) as on:
        await on.bus.bus.emit("watcher", [loss(RESET, left)])
        assert answer_in(await on.stop("s1")) == ALIKE


async def test_what_was_never_there_is_no_loss() -> None:
    needs = needing("session_rename")
    async with running_bus() as daemon, connected(daemon) as bus:
        await bus.emit(loss("session_rename", "unavailable"))
        (receipt,) = (await bus.emit(Emission(request=frame(), requirements=(needs,)))).receipts
        found = await bus.negotiate("codex", [needs], session="s1")
    assert answer_in(receipt) == (found.failure_class, found.retry_class) == ("capability_unsupported", "do_not_retry")
