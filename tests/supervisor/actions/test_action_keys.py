"""The keys of actions: what was done under one is done once, whoever asks again and whenever the broker ended."""

from functools import partial
from typing import Any

import anyio
import pytest

from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.ports import Journal, NewRecord, Refusal
from lifebus_contract.extensions import ActionOutcome, ActionResult, ActionScope, ActionStatus, HandlerResult
from lifebus_supervisor.actions.keys import ActionKeys, KeyUse
from lifebus_supervisor.actions.ports import ControlOutcome, ControlState
from lifebus_supervisor.actions.records import ORDER, digest_of_key, stream_of
from lifebus_supervisor.actions.rules.signatures import canonical_json, signature_digest, signature_of
from lifebus_supervisor.extensions.rules.dispatch import queue_winner
from support.actions.boxes import (
    SCOPE,
    ActionBox,
    action_box,
    code_of,
    enqueue,
    fresh_box,
    steer,
    upsert,
)
from support.integration.following import until
from support.transcripts.boxes import entry, until_read


async def content(box: ActionBox, session: str = "s1") -> list[str]:
    return [one.content for one in await box.transcripts.entries(session)]


# Keys.


async def test_the_same_request_is_done_once_whatever_the_order_of_its_keys() -> None:
    async with fresh_box() as box:
        first = await box.steer(request_id="r1")
        turned = dict(reversed(steer().items()))
        again = await box.ask("turn.steer.create", turned, idempotency_key=" k ", request_id="r2")
        assert again == first
        assert again.request_id == "r1"
        assert len(box.app_server.steers) == 1


@pytest.mark.parametrize(
    ("action_type", "payload", "scope"),
    [
        ("turn.steer.create", steer("other"), SCOPE),
        ("transcript.upsert", upsert(), SCOPE),
        ("turn.steer.create", steer(), ActionScope(source_session_id="s1", turn_id="t1")),
    ],
    ids=["payload", "type", "scope"],
)
async def test_another_request_under_the_key_is_a_conflict(
    action_type: str, payload: dict[str, Any], scope: ActionScope
) -> None:
    async with fresh_box() as box:
        await box.steer()
        outcome = await box.ask(action_type, payload, scope, idempotency_key="k")
        assert (outcome.status, code_of(outcome)) == ("conflict", "idempotency_conflict")
        assert len(box.app_server.steers) == 1
        assert not await content(box)


async def test_without_a_key_each_request_is_done() -> None:
    async with fresh_box() as box:
        await box.steer(key=None)
        await box.steer(key=None)
        assert len(box.app_server.steers) == 2
        assert not await box.journal.streams("action")


async def test_what_comes_meanwhile_waits_for_the_one_that_is_done() -> None:
    outcomes: dict[str, ActionOutcome] = {}

    async def ask(box: ActionBox, name: str, text: str) -> None:
        outcomes[name] = await box.steer(text)

    async with fresh_box() as box, anyio.create_task_group() as tasks:
        box.app_server.gate = anyio.Event()
        tasks.start_soon(ask, box, "first", "go on")
        await until(lambda: box.app_server.steers)
        tasks.start_soon(ask, box, "same", "go on")
        tasks.start_soon(ask, box, "other", "stop")
        await anyio.wait_all_tasks_blocked()
        assert not outcomes
        box.app_server.gate.set()
        await until(lambda: len(outcomes) == 3)
        assert [outcomes[name].status for name in ("first", "same")] == ["performed", "performed"]
        assert (outcomes["other"].status, code_of(outcomes["other"])) == ("conflict", "idempotency_conflict")
        assert len(box.app_server.steers) == 1


async def test_a_caller_that_gives_up_undoes_nothing() -> None:
    async with fresh_box() as box, anyio.create_task_group() as tasks:
        box.app_server.gate = anyio.Event()
        tasks.start_soon(box.steer)
        await until(lambda: box.app_server.steers)
        tasks.cancel_scope.cancel()
        box.app_server.gate.set()
        with anyio.CancelScope(shield=True):
            assert (await box.steer()).status == "performed"
            assert len(box.app_server.steers) == 1


async def test_what_was_refused_for_now_may_be_asked_again() -> None:
    async with fresh_box() as box:
        for _ in range(40):
            box.app_server.answer = ControlOutcome(ControlState.UNREACHABLE)
            assert (await box.steer()).status == "failed"
        box.app_server.answer = ControlOutcome(ControlState.DONE)
        assert (await box.steer()).status == "performed"
        assert (await box.steer()).status == "performed"
        assert len(box.app_server.steers) == 41
        (stream,) = await box.journal.streams(stream_of(digest_of_key("k")))
        assert stream.head - stream.floor < 40


async def test_what_may_have_been_done_is_never_done_again() -> None:
    async with fresh_box() as box:
        box.app_server.answer = ControlOutcome(ControlState.UNKNOWN)
        first = await box.steer()
        box.app_server.answer = ControlOutcome(ControlState.DONE)
        assert await box.steer() == first
        assert len(box.app_server.steers) == 1


async def test_a_defect_after_the_beginning_is_an_unknown_outcome() -> None:
    async with fresh_box() as box:
        box.app_server.fault = ZeroDivisionError("oops")
        outcome = await box.steer()
        assert (outcome.status, code_of(outcome)) == ("failed", "outcome_unknown")
        box.app_server.fault = None
        assert await box.steer() == outcome


async def test_what_cannot_be_recorded_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fresh_box() as box:
        refusal = Refusal.of("disk_full", "the disk is full")
        with monkeypatch.context() as patch:
            patch.setattr(box.journal, "append", lambda records, done: refusal)
            outcome = await box.steer()
            assert (outcome.status, code_of(outcome)) == ("failed", "disk_full")
            assert code_of(await box.ask("transcript.upsert", upsert(), idempotency_key="u")) == "disk_full"
        assert not box.app_server.steers
        assert not await content(box)
        assert (await box.steer()).status == "performed"


async def test_too_many_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lifebus_supervisor.actions.actions.MAX_RUNNING", 2)
    async with fresh_box() as box, anyio.create_task_group() as tasks:
        box.app_server.gate = anyio.Event()
        for number in range(2):
            tasks.start_soon(partial(box.steer, key=f"k{number}"))
        await until(lambda: len(box.app_server.steers) == 2)
        assert code_of(await box.steer(key="k3")) == "busy"
        box.app_server.gate.set()


# Over the life of a broker.


async def test_outcomes_outlive_the_broker() -> None:
    ledger = await open_unkept()
    async with action_box(ledger.journal) as box:
        payloads = {
            "transcript.upsert": upsert(),
            "turn.steer.create": steer(),
            "approval.decide": {"approvalId": "a1", "decision": "accept"},
            "queue.enqueue": enqueue(),
        }
        before = {
            one: await box.ask(one, payload, idempotency_key=one, request_id="r") for one, payload in payloads.items()
        }
    async with action_box(ledger.journal) as box:
        after = {one: await box.ask(one, payload, idempotency_key=one) for one, payload in payloads.items()}
        assert after == before
        assert {one.request_id for one in after.values()} == {"r"}
        assert (box.app_server.decided, box.app_server.steers, box.queue.queued) == ([], [], [])
        conflict = await box.ask("queue.enqueue", enqueue(n=2), idempotency_key="transcript.upsert")
        assert code_of(conflict) == "idempotency_conflict"
    await ledger.aclose()


async def begun(journal: Journal, action_type: str, box: ActionBox) -> None:
    """Leave a key as a broker does that died while the action was done."""
    died = ActionKeys(journal, box.transcripts.clock)
    request = {"turn.steer.create": steer(), "queue.enqueue": enqueue()}
    request["approval.decide"] = {"approvalId": "a1", "decision": "accept"}
    signature = signature_digest(signature_of(action_type, SCOPE, canonical_json(request[action_type])))
    use = KeyUse(digest=digest_of_key("k"), signature=signature, action_type=action_type, requested_by="tests")
    await died.begin(use, 0, "observer of before" if action_type == "turn.steer.create" else None)


@pytest.mark.parametrize(
    ("before", "expected", "steers"),
    [
        (None, ("failed", "outcome_unknown"), 0),
        (ControlOutcome(ControlState.DONE), ("performed", None), 0),
        (ControlOutcome(ControlState.UNREACHABLE), ("performed", None), 1),
        (ControlOutcome(ControlState.REFUSED, "no active turn"), ("conflict", "app_server_refused"), 0),
    ],
    ids=["nobody knows", "it was", "never sent", "it was refused"],
)
async def test_a_steer_that_was_begun_is_sent_again_only_if_it_never_was(
    before: ControlOutcome | None, expected: tuple[str, object], steers: int
) -> None:
    async with fresh_box() as box:
        await begun(box.journal, "turn.steer.create", box)
        if before is not None:
            box.app_server.known[digest_of_key("k")] = before
        outcome = await box.steer()
        assert (outcome.status, code_of(outcome)) == expected
        assert len(box.app_server.steers) == steers
        assert box.app_server.searched == ["observer of before"]
        if before is None:
            box.app_server.known[digest_of_key("k")] = ControlOutcome(ControlState.UNREACHABLE)
            assert await box.steer() == outcome


async def test_whom_a_steer_goes_to_is_durable_before_it_goes() -> None:
    async with fresh_box() as box:
        box.app_server.gate = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(box.steer)
            await until(lambda: box.app_server.steers)
            found = (await ActionKeys(box.journal, box.transcripts.clock).find(digest_of_key("k"))).state
            assert found is not None
            assert (found.outcome, found.asked) == (None, "observer")
            box.app_server.gate.set()


async def test_a_steer_that_was_never_sent_and_cannot_be_now_leaves_its_key_free() -> None:
    async with fresh_box() as box:
        await begun(box.journal, "turn.steer.create", box)
        box.app_server.known[digest_of_key("k")] = ControlOutcome(ControlState.UNREACHABLE)
        box.app_server.answer = ControlOutcome(ControlState.UNREACHABLE)
        assert code_of(await box.steer()) == "app_server_unreachable"
        box.app_server.answer = ControlOutcome(ControlState.DONE)
        assert (await box.steer("something else")).status == "performed"


async def test_a_steer_that_was_begun_stays_so_while_no_app_server_can_be_asked() -> None:
    async with fresh_box() as box:
        await begun(box.journal, "turn.steer.create", box)
        whole = box.actions.performers
        box.actions.performers = type(whole)(transcripts=whole.transcripts, sessions=whole.sessions)
        assert code_of(await box.steer()) == "app_server_unreachable"
        box.actions.performers = whole
        assert code_of(await box.steer()) == "outcome_unknown"
        assert not box.app_server.steers


@pytest.mark.parametrize("is_pending", [True, False])
async def test_an_approval_that_was_begun_is_asked_for_again(is_pending: bool) -> None:
    async with fresh_box() as box:
        await begun(box.journal, "approval.decide", box)
        if not is_pending:
            box.app_server.approvals.clear()
        outcome = await box.ask("approval.decide", {"approvalId": "a1", "decision": "accept"}, idempotency_key="k")
        assert outcome.status == ("performed" if is_pending else "already_resolved")
        assert len(box.app_server.decided) == is_pending


@pytest.mark.parametrize("was_queued", ["no", "yes", "forgotten"])
async def test_a_job_that_was_begun_is_the_same_job(was_queued: str) -> None:
    async with fresh_box() as box:
        await begun(box.journal, "queue.enqueue", box)
        job_id = f"act_{digest_of_key('k')[:48]}"
        if was_queued == "yes":
            await box.ask("queue.enqueue", enqueue(), idempotency_key="k")
            await box.journal.drop(stream_of(digest_of_key("k")), 1)
        elif was_queued == "forgotten":
            box.queue.forgotten.add(job_id)
        outcome = await box.ask("queue.enqueue", enqueue(), idempotency_key="k")
        assert outcome.status == "performed"
        assert (outcome.details or {})["job"]["id"] == job_id
        assert len(box.queue.queued) == (was_queued != "forgotten")


async def test_an_entry_and_its_key_are_one_append(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fresh_box() as box:
        appended: list[list[str]] = []
        real = box.journal.append

        def append(records: list[NewRecord], done: Any) -> Refusal | None:
            appended.append([one.stream.split("/")[0] for one in records])
            return real(records, done)

        monkeypatch.setattr(box.journal, "append", append)
        await box.ask("transcript.upsert", upsert(), idempotency_key="k")
        assert [one for one in appended if "action" in one] == [["transcript", "action", "actions", "signal"]]
        # Whoever changed it since is not written over by a repetition, nor is one that changed nothing done again.
        await box.transcripts.store.upsert(
            "s1",
            entry("m1", content="newer", turn_id="t1"),
        )
        assert (await box.ask("transcript.upsert", upsert(), idempotency_key="k")).status == "performed"
        assert await content(box) == ["newer"]


async def test_an_entry_that_changes_nothing_still_takes_its_key() -> None:
    async with fresh_box() as box:
        await box.ask("transcript.upsert", upsert())
        await box.ask("transcript.upsert", upsert(), idempotency_key="k")
        conflict = await box.ask("transcript.upsert", upsert("new"), idempotency_key="k")
        assert code_of(conflict) == "idempotency_conflict"


async def test_of_old_keys_is_kept_that_they_were_used() -> None:
    async with fresh_box(keep=8) as box:
        for number in range(40):
            await box.steer(key=f"k{number}")

        async def counts() -> tuple[int, int]:
            """Return how many keys are kept, and how many the order has."""
            kept = [one for one in await box.journal.streams("action/") if one.head > one.floor]
            (order,) = await box.journal.streams(ORDER)
            return len(kept), order.head - order.floor

        # Old keys are forgotten beside whoever asks.
        kept, ordered = await until_read(counts, lambda found: found[0] == found[1])
        assert 8 <= kept == ordered < 20
        assert (await box.steer(key="k39")).status == "performed"
        outcome = await box.steer(key="k0")
        assert (outcome.status, code_of(outcome)) == ("conflict", "idempotency_key_forgotten")
        assert len(box.app_server.steers) == 40


@pytest.mark.parametrize("status", ActionStatus)
async def test_a_job_that_an_action_queued_is_the_job_of_its_pass(status: ActionStatus) -> None:
    async with fresh_box() as box:
        queued = await box.ask("queue.enqueue", enqueue(), idempotency_key="k")
        result = ActionResult(
            module_name="m", event_type="e", action_type="queue.enqueue", status=status, details=queued.details
        )
        winner = queue_winner([HandlerResult(module_name="a", event_type="e"), result])
        if status in ("performed", "already_resolved"):
            assert winner is not None
            assert winner.job.id == box.queue.queued[0].job_id
        else:
            assert winner is None
