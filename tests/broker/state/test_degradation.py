"""A capability that is lost after dispatch: recorded, reported to who needs it, and remembered until it is back."""

import asyncio
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs, to_builtins

from lifebus_broker.claims import claim_of
from lifebus_broker.ports import StoredReceipt
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.state.capability_state import CapabilityState
from lifebus_broker.transitions import transition
from lifebus_contract import (
    AdapterManifest,
    CallbackResponse,
    CapabilityRequest,
    DispatchEnvelope,
    Emission,
    FailureClass,
    LifecycleEvent,
    RequirementLevel,
    RetryClass,
    SupportState,
    validate,
)
from support.bus_box import EVENT, answering, bus_box, emission, hang, payload, raising, receipts_of, recorded, request
from support.effort import effort
from support.patience import PATIENCE_S

DEGRADED = LifecycleEvent.CAPABILITY_DEGRADED
OPENING, STARTING = "event:frame.opening", "event:session.starting"
NATIVE, PARTIAL, GONE = SupportState.NATIVE, SupportState.PARTIAL, SupportState.UNAVAILABLE
Change = tuple[str, SupportState, SupportState]
LOST: Change = (OPENING, NATIVE, GONE)
BACK: Change = (OPENING, GONE, NATIVE)


def report(*changes: Change, **fields: Any) -> Emission:
    made = [transition(name, before, now, at_epoch_s=5, evidence="two polls") for name, before, now in changes]
    return Emission(request=request(event=DEGRADED, **fields), degradations=tuple(made))


def needs(capability: str = OPENING, level: RequirementLevel = RequirementLevel.REQUIRED) -> list[CapabilityRequest]:
    return [CapabilityRequest(capability=capability, level=level)]


def served(bus: EventBus, name: str = "client", *, events: Sequence[LifecycleEvent] = (EVENT,), **options: Any) -> Any:
    return bus.register(name, events, options.pop("handler", answering()), requirements=needs(), **options)


async def lose(bus: EventBus, *changes: Change, **fields: Any) -> dict[str, Any]:
    (outcome,) = await bus.emit("watcher", [report(*(changes or (LOST,)), **fields)])
    return dict(receipts_of(outcome))


async def test_a_loss_is_one_degraded_receipt_that_names_every_change() -> None:
    async with bus_box() as bus:
        by_hand = (STARTING, NATIVE, SupportState.MANUAL)
        (fact,) = (await lose(bus, LOST, by_hand, ("session_rename", GONE, NATIVE))).values()
        assert (fact.client_id, fact.event, fact.status) == ("watcher", DEGRADED, "degraded")
        assert (fact.failure_class, fact.retry_class) == ("capability_degraded", "retry_after_operator")
        assert [(one.capability, one.evidence) for one in fact.capability_degradations] == [
            (OPENING, "two polls"),
            (STARTING, "two polls"),
            ("session_rename", "two polls"),
        ]


async def test_a_loss_is_never_retried_more_lightly_than_the_contract_says() -> None:
    async with bus_box() as bus:
        loose = report((OPENING, NATIVE, PARTIAL))
        eager = structs.replace(loose.degradations[0], retry_class=RetryClass.SAFE_RETRY)
        (outcome,) = await bus.emit("watcher", [structs.replace(loose, degradations=(eager,))])
        (fact,) = receipts_of(outcome).values()
        assert fact.retry_class is RetryClass.RETRY_AFTER_REREAD


async def test_a_pure_recovery_is_observed_and_no_failure() -> None:
    async with bus_box() as bus:
        (fact,) = (await lose(bus, BACK)).values()
        assert (fact.status, fact.failure_class, fact.retry_class) == ("observed", None, None)
        assert [one.current_support for one in fact.capability_degradations] == [NATIVE]


async def test_a_capability_degraded_emission_that_names_nothing_is_recorded_as_ever() -> None:
    async with bus_box() as bus:
        (outcome,) = await bus.emit("watcher", [emission(event=DEGRADED)])
        assert {name: one.status for name, one in receipts_of(outcome).items()} == {"watcher": "observed"}
        assert bus.capabilities.overrides("codex", "s1") == {}


async def test_a_client_that_requires_what_was_lost_gets_a_receipt_in_the_same_transaction() -> None:
    async with bus_box() as bus:
        commits: list[Sequence[StoredReceipt]] = []
        bus.fanout.listen(commits.append)
        client = served(bus)
        bus.register("other", [EVENT], answering(), requirements=needs(STARTING))
        bus.register("wishful", [EVENT], answering(), requirements=needs(level=RequirementLevel.PREFERRED))
        served(bus, "elsewhere", adapters=["claude"])
        found = await lose(bus, idempotency_key="k1")
        fact, receipt = found["watcher"], found["client"]
        assert set(found) == {"watcher", "client"}
        assert [len(rows) for rows in commits] == [2]
        assert (receipt.event, receipt.status, receipt.failure_class) == (DEGRADED, "failed", "capability_degraded")
        assert receipt.retry_class is RetryClass.RETRY_AFTER_REREAD
        assert (receipt.parent_receipt_id, receipt.invocation_id) == (fact.receipt_id, fact.invocation_id)
        assert [one.evidence for one in receipt.capability_degradations] == ["two polls"]
        assert [one.code for one in receipt.warnings] == ["required_capability_lost"]
        assert receipt.telemetry_summary == {"emitter": "watcher"}
        assert client.dispatched == 0


async def test_what_a_new_manifest_no_longer_claims_is_lost_at_its_report_and_never_was_there_afterwards() -> None:
    async with bus_box() as bus:
        served(bus)
        codex = bus.registry.require("codex")
        plain = to_builtins(codex.manifest)
        plain["lifecycle_events"]["frame.opening"] = {"support": "unavailable", "modes": []}
        bus.registry.replace([structs.replace(codex, manifest=validate(plain, AdapterManifest))])
        lost = (await lose(bus, harness_session_id=None))["client"]
        later = receipts_of((await bus.emit("emitter", [emission()]))[0])["client"]
        assert (lost.failure_class, lost.retry_class) == ("capability_degraded", "retry_after_reread")
        assert (later.failure_class, later.retry_class) == ("capability_unsupported", "do_not_retry")


async def test_a_client_that_can_go_on_with_what_is_left_gets_no_receipt() -> None:
    async with bus_box() as bus:
        served(bus)
        assert set(await lose(bus, (OPENING, NATIVE, SupportState.SYNTHESIZED))) == {"watcher"}
        assert set(await lose(bus, (OPENING, SupportState.SYNTHESIZED, NATIVE))) == {"watcher"}


async def test_who_serves_the_event_is_asked_and_has_one_receipt_which_says_that_it_lost() -> None:
    async with bus_box() as bus:
        received: list[DispatchEnvelope] = []

        async def handler(envelope: DispatchEnvelope) -> CallbackResponse:
            received.append(envelope)
            return CallbackResponse.ok(CallbackResponse.ok().status, payload("client"))

        served(bus, events=[DEGRADED], handler=handler)
        bus.register("onlooker", [DEGRADED], answering())
        (outcome,) = await bus.emit("watcher", [report(LOST)])
        found = receipts_of(outcome)
        assert {name: (one.status, one.failure_class) for name, one in found.items()} == {
            "watcher": ("degraded", "capability_degraded"),
            "client": ("failed", "capability_degraded"),
            "onlooker": ("observed", None),
        }
        assert {found[name].parent_receipt_id for name in ("client", "onlooker")} == {found["watcher"].receipt_id}
        assert len(received) == 1
        assert outcome.deliveries == ()


@pytest.mark.parametrize("handler", [hang, raising(RuntimeError("no"))], ids=["hangs", "crashes"])
async def test_who_lost_and_cannot_be_asked_lost_all_the_same(handler: Any) -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        served(bus, events=[DEGRADED], handler=handler, deadline=0.02)
        receipt = (await lose(bus))["client"]
        assert (receipt.status, receipt.failure_class) == ("failed", "capability_degraded")
        assert len(receipt.warnings) == 2


async def test_the_same_report_again_records_nothing_and_reaches_nobody() -> None:
    async with bus_box() as bus:
        served(bus)
        both = served(bus, "both", events=[EVENT, DEGRADED])
        lost = report(LOST, idempotency_key="k1")
        (first,) = await bus.emit("watcher", [lost])
        served(bus, "newcomer")
        (again,) = await bus.emit("watcher", [lost])
        assert (again.replayed, again.stored) == (True, first.stored)
        assert (len(await recorded(bus)), both.dispatched) == (3, 1)


async def test_an_old_report_that_comes_again_does_not_undo_a_recovery() -> None:
    async with bus_box() as bus:
        lost = report(LOST, idempotency_key="k1")
        await bus.emit("watcher", [lost])
        await lose(bus, BACK)
        await bus.emit("watcher", [lost])
        assert bus.capabilities.overrides("codex", "s1") == {}


async def test_other_changes_under_the_same_key_are_a_conflict() -> None:
    async with bus_box() as bus:
        one = report(LOST, idempotency_key="k1")
        other = Emission(request=one.request, degradations=report((OPENING, NATIVE, PARTIAL)).degradations)
        for known in (other, Emission(request=one.request)):
            await bus.emit("watcher", [one])
            (outcome,) = await bus.emit("watcher", [known])
            assert outcome.refusal is not None
            assert outcome.refusal.code == "duplicate_id_conflict"


async def test_later_dispatches_in_the_session_are_refused_until_it_is_back() -> None:
    async with bus_box() as bus:
        client = served(bus)
        await lose(bus)
        receipt = receipts_of((await bus.emit("emitter", [emission()]))[0])["client"]
        assert (receipt.status, receipt.failure_class) == ("failed", FailureClass.CAPABILITY_DEGRADED)
        assert [one.capability for one in receipt.capability_degradations] == [OPENING]
        wanting = await bus.emit("emitter", [emission(requirements=needs())], dispatch=False)
        assert receipts_of(wanting[0])["emitter"].failure_class is FailureClass.CAPABILITY_DEGRADED
        elsewhere = receipts_of((await bus.emit("emitter", [emission(harness_session_id="s2")]))[0])
        assert (elsewhere["client"].status, client.dispatched) == ("observed", 1)
        await lose(bus, BACK)
        assert receipts_of((await bus.emit("emitter", [emission()]))[0])["client"].status == "observed"


@pytest.mark.parametrize("asked", [True, False], ids=["dispatched", "alone"])
async def test_the_end_of_a_session_ends_its_losses(asked: bool) -> None:
    ended = LifecycleEvent.SESSION_ENDED
    async with bus_box() as bus:
        await lose(bus)
        if asked:
            bus.register("client", [ended], answering())
        await bus.emit("emitter", [emission(event=ended, harness_session_id="s2")])
        assert bus.capabilities.overrides("codex", "s1") == {OPENING: GONE}
        await bus.emit("emitter", [emission(event=ended)])
        assert bus.capabilities.overrides("codex", "s1") == {}


async def test_a_session_that_ends_while_a_loss_is_on_its_way_has_lost_nothing() -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        ended = anyio.Event()
        append = bus.ledger.append

        def appending(receipts: Any, done: Any) -> Any:
            if receipts[0].receipt.event is DEGRADED:  # the next turn of the loop is not the one that calls `done`
                end = emission(event=LifecycleEvent.SESSION_ENDED)
                asyncio.get_running_loop().call_soon(bus.submit, "emitter", [end], lambda _: ended.set())
            return append(receipts, done)

        bus.ledger.append = appending  # type: ignore[method-assign]
        await lose(bus)
        await ended.wait()
        assert [one.event for one in await recorded(bus)] == [DEGRADED, LifecycleEvent.SESSION_ENDED]
        assert bus.capabilities.overrides("codex", "s1") == {}


async def test_a_report_without_a_session_counts_in_all_of_them() -> None:
    async with bus_box() as bus:
        client = served(bus)
        assert "client" in await lose(bus, harness_session_id=None)
        for session in ("s1", "s2", None):
            receipt = receipts_of((await bus.emit("emitter", [emission(harness_session_id=session)]))[0])["client"]
            assert receipt.status == "failed"
        assert client.dispatched == 0


async def test_a_background_report_reaches_who_lost_and_asks_nobody() -> None:
    async with bus_box() as bus:
        client = served(bus, events=[DEGRADED])
        (outcome,) = await bus.emit("watcher", [report(LOST)], dispatch=False)
        assert {name: one.status for name, one in receipts_of(outcome).items()} == {
            "watcher": "degraded",
            "client": "failed",
        }
        assert client.dispatched == 0


async def test_a_reporter_that_requires_what_it_reports_has_the_fact_alone() -> None:
    async with bus_box() as bus:
        served(bus, "watcher")
        assert set(await lose(bus, idempotency_key="k1")) == {"watcher"}


async def test_a_refused_report_is_not_believed() -> None:
    async with bus_box() as bus:
        (outcome,) = await bus.emit("watcher", [report(LOST, adapter_version="9.9")])
        assert outcome.refusal is not None
        await bus.ledger.aclose()
        (refused,) = await bus.emit("watcher", [report(LOST)])
        assert refused.refusal is not None
        assert (bus.capabilities.overrides("codex", "s1"), bus.capabilities.may_change) == ({}, False)


async def test_at_boot_what_is_lost_is_read_from_the_ledger() -> None:
    async with bus_box() as before, bus_box() as bus:
        await lose(before)
        await lose(before, harness_session_id="s2")
        await before.emit("emitter", [emission(event=LifecycleEvent.SESSION_ENDED, harness_session_id="s2")])
        bus.capabilities.apply(await recorded(before))
        assert bus.capabilities.overrides("codex", "s1") == {OPENING: GONE}
        assert bus.capabilities.overrides("codex", "s2") == {}


STATES = st.sampled_from(list(SupportState))
CHANGES = st.tuples(st.sampled_from([OPENING, STARTING]), STATES, STATES).filter(lambda one: one[1] is not one[2])
STEPS = st.tuples(
    st.sampled_from(["s1", "s2", None]),
    st.one_of(st.lists(CHANGES, min_size=1, max_size=2), st.sampled_from(["end", "fact", "again"])),
)


@settings(deadline=None, max_examples=effort(25, 600))
@given(st.lists(st.lists(STEPS, min_size=1, max_size=4), max_size=5), st.booleans())
def test_whatever_happens_at_once_the_bus_knows_what_its_ledger_says(rounds: list[list[Any]], asked: bool) -> None:
    asyncio.run(play(rounds, asked=asked))


async def play(rounds: list[list[Any]], *, asked: bool) -> None:
    """Hand each round to the bus side by side, then compare what it knows with a replay of its ledger."""
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        client = served(bus, events=[EVENT, DEGRADED] if asked else [EVENT])
        seen: list[Emission] = []
        for steps in rounds:
            async with anyio.create_task_group() as tasks:
                for session, step in steps:
                    fact = step_of(session, step, seen)
                    seen.append(fact)
                    tasks.start_soon(bus.emit, "watcher", [fact])
        receipts = await recorded(bus)
        replayed = CapabilityState()
        for one in receipts:
            replayed.apply(one)
        whole, *own = [
            replayed.losses(
                ("codex", session), lambda adapter, name: claim_of(bus.registry.require(adapter).manifest, name)
            )
            for session in (None, "s1", "s2")
        ]
        for session, losses in zip(("s1", "s2"), own, strict=True):
            assert bus.capabilities.overrides("codex", session) == {**whole, **losses}
        parents = {one.receipt_id: one for one in receipts}
        for one in receipts:
            reported = {
                (lost.capability, lost.current_support)
                for lost in one.capability_degradations
                if lost.evidence == "two polls"  # a refusal after the loss names it in words of its own
            }
            if one.client_id == client.client_id and reported:
                assert (one.failure_class, one.parent_receipt_id is None) == (FailureClass.CAPABILITY_DEGRADED, False)
                root = parents[one.parent_receipt_id or ""]
                assert reported <= {(lost.capability, lost.current_support) for lost in root.capability_degradations}
        assert bus.capabilities.expected == 0


def step_of(session: str | None, step: Any, seen: list[Emission]) -> Emission:
    key = f"k{len(seen)}"
    if step == "again" and seen:
        return seen[0]
    if isinstance(step, str):
        event = LifecycleEvent.SESSION_ENDED if step == "end" else EVENT
        return emission(event=event, harness_session_id=session, idempotency_key=key)
    return report(*step, harness_session_id=session, idempotency_key=key)
