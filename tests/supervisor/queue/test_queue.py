"""The queue: what is taken, what runs beside what, what follows from every end, and what is told of it."""

from contextlib import aclosing

import anyio
import pytest

from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.ports import NewRecord
from lifebus_contract import BrokerBusy, InvalidRequest, LifebusError, StateConflict
from lifebus_contract.flows import RetryPause
from lifebus_contract.jobs import Dedupe, JobPriority, NewJob
from lifebus_supervisor.queue.rules.attempts import AttemptEnd
from support.integration.following import until
from support.patience import PATIENCE_S
from support.queue_box import START_MS, fresh_box, queue_box


async def test_a_job_is_queued_started_and_completed_and_each_of_it_is_told() -> None:
    async with fresh_box() as box:
        assert await box.add("a", source_session_id="s", payload={"x": 1}) == "enqueued"
        await box.begun("a")
        await box.runner.tools["a"].progress({"stage": "half"})
        await box.end("a", {"y": 2})
        job = box.table.job("a")
        assert (job.state, job.result, job.attempts, job.error) == ("completed", {"y": 2}, 1, None)
        assert (job.created_at, job.completed_at) == ("2026-09-21T14:13:20.000Z", "2026-09-21T14:13:20.000Z")
        assert box.names("a") == ["queued", "started", "progress", "completed"]
        last = box.events[-1][1]
        assert last["threadId"] == "s"
        assert last["payload"] == {
            "jobId": "a",
            "projectId": "p",
            "jobType": "work",
            "state": "completed",
            "sourceSessionId": "s",
            "result": {"y": 2},
        }


async def test_of_one_project_one_job_runs_and_of_all_as_many_as_the_settings_say() -> None:
    async with fresh_box(concurrency=2) as box:
        for name, project in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c")):
            await box.add(name, project)
        await box.quiet()
        assert box.runner.begun == ["a1", "b1"]
        await box.end("b1")
        assert box.runner.begun == ["a1", "b1", "c1"]
        await box.end("a1")
        assert box.runner.begun == ["a1", "b1", "c1", "a2"]


async def test_interactive_jobs_go_first_until_a_background_one_has_waited_long_enough() -> None:
    async with fresh_box(aging_ms=1_000, interactive_burst=2) as box:
        await box.add("first")
        await box.add("old", priority=JobPriority.BACKGROUND)
        for number in range(4):
            await box.add(f"i{number}")
        box.clock[0] += 1_000
        for name in ("first", "i0", "i1"):
            await box.end(name)
        assert box.runner.begun == ["first", "i0", "i1", "old"]
        await box.end("old")
        assert box.runner.begun[4:] == ["i2"]


async def test_a_failure_that_may_pass_is_tried_again_after_its_pause_and_told() -> None:
    async with fresh_box() as box:
        await box.add("a", max_attempts=2, pause=RetryPause(first_ms=5_000, jitter_percent=0))
        await box.end("a", error="no answer", retryable=True)
        job = box.table.job("a")
        assert (job.state, job.error, job.attempts) == ("queued", "no answer", 1)
        assert job.next_attempt_at == "2026-09-21T14:13:25.000Z"
        waiting = box.events[-1][1]
        assert (waiting["type"], waiting["payload"]["error"]) == ("orchestrator_job_queued", "no answer")
        assert box.runner.begun == ["a"]


async def test_after_the_last_attempt_a_job_has_failed_with_its_reason() -> None:
    async with fresh_box() as box:
        await box.add("a", max_attempts=2)
        await box.end("a", error="no answer", retryable=True)
        await box.end("a", error="no answer again", retryable=True)
        assert (box.state("a"), box.table.job("a").error) == ("failed", "no answer again")
        assert box.names("a") == ["queued", "started", "queued", "started", "failed"]


async def test_a_failure_that_stays_is_not_tried_again() -> None:
    async with fresh_box() as box:
        await box.add("a", max_attempts=5)
        await box.end("a", error="  ")
        assert (box.state("a"), box.table.job("a").error) == ("failed", "unknown orchestrator error")


async def test_a_job_that_takes_too_long_is_asked_to_end_and_has_timed_out() -> None:
    async with fresh_box() as box:
        await box.add("a", time_limit_ms=1, max_attempts=1)
        await until(lambda: box.state("a") == "failed")
        assert box.table.job("a").error == "orchestrator job timeout"


async def test_a_runner_that_ignores_everything_is_ended_and_its_project_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lifebus_supervisor.queue.attempt.FORCE_S", 0.0)
    async with fresh_box() as box:
        box.runner.stubborn = True
        await box.add("a", cancel_grace_ms=1)
        await box.add("b")
        await box.begun("a")
        assert (await box.table.cancel("a", "enough")).state == "running"
        await box.begun("b")
        assert (box.state("a"), box.table.job("a").error) == ("canceled", "interrupt_timeout")


async def test_a_waiting_job_is_canceled_at_once_and_a_running_one_after_its_attempt() -> None:
    async with fresh_box() as box:
        await box.add("a")
        await box.add("b")
        await box.begun("a")
        assert (await box.table.cancel("b", "api_cancel")).error == "api_cancel"
        assert (await box.table.cancel("a", "api_cancel")).cancel_requested_at is not None
        await until(lambda: box.state("a") == "canceled")
        assert box.table.job("a").error == "cancel_requested"
        assert (box.names("a")[-1], box.names("b")) == ("canceled", ["queued", "canceled"])
        with pytest.raises(StateConflict, match="canceled already"):
            await box.table.cancel("a", "again")
        with pytest.raises(InvalidRequest, match="no job"):
            await box.table.cancel("zzz", "again")


async def test_only_what_failed_or_was_canceled_is_retried() -> None:
    async with fresh_box() as box:
        await box.add("good")
        await box.end("good", 1)
        await box.add("poor", max_attempts=1)
        await box.end("poor", error="no")
        with pytest.raises(StateConflict, match="completed"):
            await box.table.retry("good")
        assert (await box.table.retry("poor")).state == "queued"
        await box.end("poor", 2)
        assert (box.state("poor"), box.table.job("poor").attempts) == ("completed", 1)
        assert box.runner.begun == ["good", "poor", "poor"]


@pytest.mark.parametrize(
    ("mode", "while_running", "when_over"),
    [
        (Dedupe.NONE, "enqueued", "enqueued"),
        (Dedupe.SINGLE_FLIGHT, "already_queued", "enqueued"),
        (Dedupe.DROP_DUPLICATE, "already_queued", "already_queued"),
        (Dedupe.MERGE_DUPLICATE, "already_queued", "enqueued"),
    ],
)
async def test_what_counts_as_the_same_job(mode: Dedupe, while_running: str, when_over: str) -> None:
    async with fresh_box() as box:
        await box.add("a", dedupe=mode, dedupe_key="k", payload={"x": 1})
        assert await box.add("b", dedupe=mode, dedupe_key="k", payload={"y": 2}) == while_running
        assert await box.add("c", "elsewhere", dedupe=mode, dedupe_key="k") == "enqueued"
        assert await box.add("d", dedupe=mode, dedupe_key="other") == "enqueued"
        merged = {"x": 1, "y": 2} if mode is Dedupe.MERGE_DUPLICATE else {"x": 1}
        assert box.table.job("a").payload == merged
        await box.end("a", 1)
        for name in ("b", "d"):
            if name in box.table.indexes.jobs:
                await box.end(name, 1)
        assert await box.add("e", dedupe=mode, dedupe_key="k") == when_over


async def test_duplicates_that_come_at_once_are_one_job() -> None:
    async with fresh_box() as box:
        found: list[str] = []

        async def add(name: str) -> None:
            found.append(await box.add(name, dedupe=Dedupe.SINGLE_FLIGHT, dedupe_key="k"))

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(add, f"j{number}")
        assert sorted(found) == ["already_queued"] * 7 + ["enqueued"]
        assert len(box.table.indexes.jobs) == 1


async def test_the_same_call_is_the_same_job_and_another_one_is_refused() -> None:
    async with fresh_box() as box:
        assert [await box.add("a", payload={"x": 1, "y": 2}) for _ in range(2)] == ["enqueued", "enqueued"]
        assert await box.add("a", payload={"y": 2, "x": 1}) == "enqueued"
        with pytest.raises(StateConflict, match="another job"):
            await box.add("a", payload={"x": 3})
        assert box.names("a").count("queued") == 1


async def test_a_queue_that_is_full_refuses_and_a_duplicate_is_none_too_many() -> None:
    async with fresh_box(max_jobs=3, max_per_project=2) as box:
        await box.add("a", dedupe=Dedupe.SINGLE_FLIGHT, dedupe_key="k")
        await box.add("b")
        with pytest.raises(BrokerBusy, match="2 jobs of the project"):
            await box.add("c")
        assert await box.add("d", dedupe=Dedupe.SINGLE_FLIGHT, dedupe_key="k") == "already_queued"
        await box.add("e", "q")
        with pytest.raises(BrokerBusy, match="3 jobs wait"):
            await box.add("f", "r")
        await box.end("a")
        assert await box.add("f", "r") == "enqueued"


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewJob(type="nonsense", project_id="p"), "unknown_job_type"),
        (NewJob(type="work", project_id="p", payload={"bad": 1}), "invalid_payload"),
        (NewJob(type="work", project_id="p", payload={"x": "y" * 140_000}), "too_large"),
        (NewJob(type="work", project_id="p", dedupe=Dedupe.SINGLE_FLIGHT), "against_contract"),
    ],
)
async def test_what_cannot_be_done_is_not_taken(new: NewJob, code: str) -> None:
    async with fresh_box() as box:
        with pytest.raises(LifebusError) as refused:
            await box.table.enqueue(new)
        assert (refused.value.code, box.table.indexes.jobs) == (code, {})


async def test_a_queue_that_is_off_takes_nothing() -> None:
    async with fresh_box(enabled=False) as box:
        with pytest.raises(StateConflict, match="off"):
            await box.add("a")


async def test_a_result_that_cannot_be_told_is_a_failure() -> None:
    async with fresh_box() as box:
        await box.add("a", max_attempts=3)
        await box.end("a", "x" * 60_000)
        assert box.state("a") == "failed"
        assert "49152" in (box.table.job("a").error or "")


async def test_a_drained_queue_begins_nothing_until_it_goes_on() -> None:
    async with fresh_box() as box:
        await box.add("a")
        await box.begun("a")
        await box.add("b")
        await box.table.drain(drains=True, cancel=False, seconds=0)
        await box.end("a")
        assert box.runner.begun == ["a"]
        await box.table.drain(drains=False, cancel=False, seconds=0)
        await box.end("b")
        assert box.state("b") == "completed"


async def test_what_a_drain_ends_waits_for_its_next_turn_and_loses_no_attempt() -> None:
    async with fresh_box() as box:
        await box.add("a", max_attempts=1)
        await box.begun("a")
        await box.table.drain(drains=True, cancel=True, seconds=60)
        assert (box.state("a"), box.table.job("a").attempts, box.table.job("a").error) == ("queued", 0, "shutdown")


async def test_of_what_is_over_failed_jobs_are_kept_longest() -> None:
    async with fresh_box(keep=10) as box:
        box.runner.may_forget = anyio.Event()
        for number in range(12):
            box.clock[0] += 1
            await box.add(f"j{number}")
            await box.end(f"j{number}", error="no" if number in {0, 3} else None)
        kept = set(box.table.indexes.jobs)
        assert kept == {"j0", "j3", *(f"j{number}" for number in range(4, 12))}
        await until(lambda: box.runner.forgotten[:1] == ["j1"])
        for name in ("j1", "j2"):
            with pytest.raises(StateConflict, match="forgotten"):
                await box.add(name)
        box.runner.may_forget.set()
        with anyio.fail_after(PATIENCE_S):
            for name in ("j1", "j2"):
                while (await box.table.journal.read(f"job/{name}")).records:
                    pass
        assert box.runner.forgotten == ["j1", "j2"]  # each once
        for name in ("j1", "j2"):
            with pytest.raises(StateConflict, match="forgotten"):
                await box.add(name)


async def test_the_id_of_a_job_that_cannot_be_read_is_not_given_again() -> None:
    async with aclosing(await open_unkept()) as ledger:
        written = anyio.Event()
        assert ledger.journal.append([NewRecord("job/a", b"no record")], lambda _: written.set()) is None
        await written.wait()
        async with queue_box(ledger.journal) as box:
            with pytest.raises(StateConflict, match="cannot be read"):
                await box.add("a")
            assert (await ledger.journal.read("job/a")).head == 1


async def test_after_a_restart_what_is_over_stays_and_what_ran_is_asked_for_first() -> None:
    clock = [START_MS]
    async with aclosing(await open_unkept(clock=lambda: 1.0)) as ledger:
        async with queue_box(ledger.journal, clock, concurrency=8) as box:
            for name, project, tries in (("done", "d", 2), ("ended", "e", 2), ("again", "a", 2), ("used", "u", 1)):
                await box.add(name, project, max_attempts=tries)
            await box.end("done", {"kept": 1})
            await box.add("canceling", "c")
            await box.begun("canceling")
            box.runner.stubborn = True
            await box.add("waiting", "a")
            for name in ("ended", "again", "used"):
                await box.begun(name)
        async with queue_box(ledger.journal, clock, started=False, concurrency=8) as box:
            box.runner.recoverable["ended"] = AttemptEnd(result="from outside")
            await box.start()
            await box.begun("again")
            await box.quiet()
            assert sorted(box.runner.asked) == ["again", "canceling", "ended", "used"]
            assert box.table.job("done").result == {"kept": 1}
            assert (box.state("ended"), box.table.job("ended").result) == ("completed", "from outside")
            assert (box.state("used"), box.table.job("used").error) == ("failed", "recovery_max_attempts_exceeded")
            assert box.names("again") == ["queued", "started"]
            told = [one["payload"] for _, one in box.events if one["payload"]["jobId"] == "again"]
            assert told[0]["error"] == "recovered_from_running_state"
            assert box.names("done") == []
            assert "waiting" not in box.runner.begun
            await box.end("again", 1)
            assert box.runner.begun[-1] == "waiting"


async def test_what_nobody_can_do_any_more_has_failed_after_a_restart_and_a_finished_one_has_not() -> None:
    async with aclosing(await open_unkept(clock=lambda: 1.0)) as ledger:
        async with queue_box(ledger.journal) as box:
            await box.add("done")
            await box.end("done", 1)
            await box.add("runs")
            await box.begun("runs")
            await box.add("waits")
        async with queue_box(ledger.journal, started=False) as box:
            del box.types["work"]
            await box.start()
            await until(lambda: box.state("runs") == "failed" and box.state("waits") == "failed")
            assert box.table.job("waits").error == "recovery_unknown_job_type:work"
            assert (box.state("done"), box.table.job("done").result) == ("completed", 1)
            assert (box.names("waits"), box.names("runs"), box.names("done")) == (["failed"], ["failed"], [])


async def test_events_that_are_not_kept_are_told_and_lie_in_no_journal_of_the_ledger() -> None:
    async with aclosing(await open_unkept()) as ledger, aclosing(await open_unkept()) as unkept:
        async with queue_box(ledger.journal, signals_journal=unkept.journal) as box:
            await box.add("a")
            await box.begun("a")
            await box.runner.tools["a"].progress({"stage": "half"})
            await box.end("a", 1)
            told = ["queued", "started", "progress", "completed"]
            await until(lambda: box.names("a") == told)
            assert await ledger.journal.streams("signal/") == []
            (thread,) = await unkept.journal.streams("signal/")
            assert (thread.stream.rpartition("lifebus/")[2], thread.head) == ("queue/p", len(told))
        async with queue_box(ledger.journal, signals_journal=unkept.journal) as box:
            assert box.table.job("a").result == 1
