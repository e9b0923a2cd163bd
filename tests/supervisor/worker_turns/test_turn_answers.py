"""How a worker's turn ended is durable with its job before anybody is told that it is known."""

from typing import Any

import pytest
from msgspec import structs

from lifebus_broker.ledger.factory import open_unkept
from lifebus_contract import LifebusError
from lifebus_contract.jobs import NewJob
from lifebus_supervisor.queue.records import JobStanding, WorkerAnswer
from lifebus_supervisor.queue.rules.attempts import AttemptEnd
from lifebus_supervisor.worker_turns.turn_answers import TurnAnswers
from lifebus_transports.messages.signals import ObservedTurn
from support.integration.following import until
from support.queue_box import QueueBox, ScriptedRunner, fresh_box, queue_box


def seen(turn: str = "u1", thread: str = "w1", status: Any = "completed", **more: Any) -> ObservedTurn:
    return ObservedTurn(thread=thread, turn=turn, status=status, **more)


async def placed(box: QueueBox, turn: str | None = "u1") -> None:
    """A job runs, in the turn `u1` of the thread `w1`."""
    await box.table.enqueue(NewJob(type="work", project_id="p", job_id="j1"))
    await box.begun("j1")
    await box.runner.tools["j1"].place("w1", turn, "observer")


def answer_of(box: QueueBox) -> WorkerAnswer | None:
    return box.table.indexes.jobs["j1"].require().answer


async def test_an_end_is_acknowledged_once_it_is_durable_with_its_job() -> None:
    async with fresh_box() as box:
        await placed(box)
        turns = TurnAnswers()
        turns.record = box.table.answered
        await turns.take(seen(text="well"))
        assert answer_of(box) == WorkerAnswer(turn_id="u1", status="completed", text="well")
        await turns.take(seen(text="once more"))  # an observer that got no answer reports again
        assert answer_of(box) == WorkerAnswer(turn_id="u1", status="completed", text="well")
        await box.end("j1", {"ok": True})
        assert answer_of(box) is None, "it was for the time in between"


@pytest.mark.parametrize("other", [{"thread": "w2"}, {"turn": "u0"}, {"status": "inProgress"}])
async def test_what_is_of_another_turn_or_of_its_middle_is_not_its_end(other: dict[str, Any]) -> None:
    async with fresh_box() as box:
        await placed(box)
        turns = TurnAnswers()
        turns.record = box.table.answered
        await turns.take(seen(**other))
        assert answer_of(box) is None


async def test_an_end_that_cannot_be_written_has_to_come_again() -> None:
    turns = TurnAnswers()

    async def refuse(_: str, __: WorkerAnswer) -> bool:
        raise LifebusError("the disk is full", code="disk_full")

    turns.record = refuse
    with turns.awaited("w1") as turn:
        with pytest.raises(LifebusError):
            await turns.take(seen())
        assert turn.answer is None
        assert not turn.ended.is_set()


async def test_whoever_waits_for_a_turn_gets_its_end_and_no_others() -> None:
    turns = TurnAnswers()
    with turns.awaited("w1", "u1") as turn:
        await turns.take(seen("u0"))
        assert not turn.ended.is_set()
        await turns.take(seen("u1", status="interrupted"))
        assert turn.answer is not None
        assert turn.answer.status == "interrupted"
    await turns.take(seen("u1"))


class Recovering(ScriptedRunner):
    """Ends what is recovered as the record says."""

    async def recover(self, job: JobStanding) -> AttemptEnd | None:
        return None if job.answer is None else AttemptEnd(result=job.answer.text)


async def test_the_next_broker_finds_the_end_where_and_by_whom_it_was_done() -> None:
    ledger = await open_unkept(clock=lambda: 1_790_000_000)
    async with queue_box(ledger.journal) as box:
        await placed(box, None)
        assert await box.table.answered("w1", WorkerAnswer(turn_id="u1", status="completed", text="well"))
    async with queue_box(ledger.journal, started=False) as box:
        runner = Recovering()
        kind = box.types["work"]
        box.types["work"] = structs.replace(kind, runner=runner)
        await box.start()
        await until(lambda: box.state("j1") == "completed")
        assert box.table.job("j1").result == "well"
        assert not runner.begun
    await ledger.aclose()
