"""Questions over a real ledger: asked once, settled once, still there after a restart."""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from lifebus_broker.ledger.refusals import DISK_FULL
from lifebus_broker.ports import Journal, NewRecord, Record, Refusal
from lifebus_contract import BrokerBusy, InternalError, InvalidRequest, LifebusError, StateConflict
from lifebus_contract.questions import AnswerAction, Notification, Question, QuestionAnswer, QuestionInfo
from lifebus_supervisor.runtime.inbox import inbox as inbox_module
from lifebus_supervisor.runtime.inbox.inbox import Inbox
from lifebus_supervisor.runtime.inbox.records import NotificationDelivered, NotificationFailed, QuestionReminded
from support.contract_suites.journal_suite import every_record, noted
from support.inbox.delivering import until
from support.inbox.questions import AT_MS, answer, inbox_of, ledger_in, question
from support.patience import PATIENCE_S


class HeldJournal:
    """A journal that takes nothing before `release`; while it is `full` it refuses when the write would be done."""

    def __init__(self, journal: Journal) -> None:
        self.held = self.full = False
        self.arrived = anyio.Event()
        self._waiting: list[tuple[Sequence[NewRecord], Callable[[list[Record] | Refusal], None]]] = []
        self._journal = journal
        self.read, self.streams, self.drop = journal.read, journal.streams, journal.drop
        self.read_all, self.drop_all, self.heads = journal.read_all, journal.drop_all, journal.heads

    def append(self, records: Sequence[NewRecord], done: Callable[[list[Record] | Refusal], None]) -> Refusal | None:
        if self.held:
            self._waiting.append((records, done))
            self.arrived.set()
            return None
        if self.full:
            return self._journal.append([], lambda _: done(DISK_FULL))
        return self._journal.append(records, done)

    def release_first(self) -> None:
        records, done = self._waiting.pop(0)
        refusal = self._journal.append(records, done)
        assert refusal is None

    def release(self) -> None:
        self.held = False
        waiting, self._waiting = self._waiting, []
        for records, done in waiting:
            refusal = self.append(records, done)
            assert refusal is None


async def test_a_question_and_its_answer_are_still_there_after_a_restart(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        asked = await (await inbox_of(ledger)).ask(question())
        assert asked == QuestionInfo(question=question())
        again = await inbox_of(ledger)
        assert again.questions() == [asked]
        answered = await again.answer("q_1", answer(message="done"))
        last = await inbox_of(ledger)
        assert last.questions() == []
        assert last.get("q_1") == answered == QuestionInfo(question=question(), answer=answer(message="done"))


async def test_a_question_and_what_belongs_to_it_are_one_append_and_are_written_once(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        also = [NewRecord("run/r1", b"asking")]
        await inbox.ask(question(), also)
        await inbox.ask(question(asked_at_ms=AT_MS + 1), also)
        await (await inbox_of(ledger)).ask(question(asked_at_ms=AT_MS + 2), also)
        assert [record.body for record in await every_record(ledger.journal, "run/r1")] == [b"asking"]
        assert inbox.require("q_1").question.asked_at_ms == AT_MS


async def test_two_who_ask_the_same_at_once_ask_it_once(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        announced: list[QuestionInfo] = []
        inbox.listen(announced.append)
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(inbox.ask, question(), [NewRecord("run/r1", b"asking")])
        assert len(announced) == 1
        assert len(await every_record(ledger.journal, "run/r1")) == 1


async def test_another_question_under_a_taken_id_is_refused(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        await inbox.ask(question())
        with pytest.raises(StateConflict) as caught:
            await inbox.ask(question(title="something else"))
        assert caught.value.code == "other_question"


async def test_a_second_answer_is_refused_with_the_facts_of_the_first(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        await inbox.ask(question())
        await inbox.answer("q_1", answer(channel="cli", message="renewed the token"))
        for one in (inbox, await inbox_of(ledger)):
            with pytest.raises(StateConflict) as caught:
                await one.answer("q_1", answer(AnswerAction.ABORT, responder="bob"))
            assert caught.value.code == "already_answered"
            for fact in ("`retry`", "alice", "cli", "2026-09-21T14:13:25Z", "renewed the token"):
                assert fact in caught.value.detail
            with pytest.raises(StateConflict, match="answered already"):
                await one.withdraw("q_1")


async def test_exactly_the_same_answer_may_come_again(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        await inbox.ask(question())
        assert await inbox.answer("q_1", answer()) == await inbox.answer("q_1", answer())
        with pytest.raises(StateConflict, match="answered already"):
            await inbox.answer("q_1", answer(responded_at_ms=AT_MS + 5_001))


async def test_of_two_answers_at_once_one_counts_even_if_its_sender_gave_up(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        held = HeldJournal(ledger.journal)
        inbox = Inbox(held, lambda: AT_MS)
        announced: list[QuestionInfo] = []
        await inbox.ask(question())
        inbox.listen(announced.append)
        held.held = True
        outcomes: list[str | None] = []

        async def second() -> None:
            with pytest.raises(StateConflict) as caught:
                await inbox.answer("q_1", answer(AnswerAction.ABORT, responder="bob"))
            outcomes.append(caught.value.code)

        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                tasks.start_soon(_cancelled_later, scope, held)
                await inbox.answer("q_1", answer())
            assert scope.cancelled_caught
            tasks.start_soon(second)
            await anyio.lowlevel.checkpoint()
            held.release()
        assert outcomes == ["already_answered"]
        assert [one.answer for one in announced] == [answer()]
        assert inbox.require("q_1").answer == answer()


async def _cancelled_later(scope: anyio.CancelScope, held: HeldJournal) -> None:
    with anyio.fail_after(PATIENCE_S):
        await held.arrived.wait()
    scope.cancel()


async def test_an_answer_that_could_not_be_written_leaves_the_question_open(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        held = HeldJournal(ledger.journal)
        inbox = Inbox(held, lambda: AT_MS)
        await inbox.ask(question())
        held.full = True
        with pytest.raises(LifebusError, match="full"):
            await inbox.answer("q_1", answer())
        with pytest.raises(LifebusError, match="full"):
            await inbox.ask(question("q_2"))
        assert [one.question.question_id for one in inbox.questions()] == ["q_1"]
        assert inbox.get("q_2") is None
        held.full = False
        await inbox.ask(question("q_2"))
        assert (await inbox.answer("q_1", answer(responder="bob"))).answer == answer(responder="bob")


async def test_a_withdrawn_question_takes_no_answer(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger, lambda: AT_MS + 9)
        await inbox.ask(question())
        assert (await inbox.withdraw("q_1")).withdrawn_at_ms == AT_MS + 9
        assert (await inbox.withdraw("q_1")).withdrawn_at_ms == AT_MS + 9
        for one in (inbox, await inbox_of(ledger)):
            assert one.questions() == []
            with pytest.raises(StateConflict) as caught:
                await one.answer("q_1", answer())
            assert caught.value.code == "question_withdrawn"


@pytest.mark.parametrize(
    ("asked", "given", "code"),
    [
        (question(), answer(AnswerAction.MODIFY), "not_modifiable"),
        (question(), answer(AnswerAction.MODIFY, modifications={"other": 1}), "not_modifiable"),
        (question(), answer(AnswerAction.MODIFY, modifications={"depth": 4}), "not_modifiable"),
        (question(), answer(AnswerAction.MODIFY, modifications={"depth": True}), "not_modifiable"),
        (question(), answer(AnswerAction.MODIFY, modifications={"depth": "1"}), "not_modifiable"),
        (question(), answer(AnswerAction.MODIFY, modifications={"branch": 1}), "not_modifiable"),
        (question(), answer(AnswerAction.MODIFY, modifications={"force": 1}), "not_modifiable"),
        (question(), answer(AnswerAction.MODIFY, modifications={"files": "a"}), "not_modifiable"),
        (question(), answer(AnswerAction.MODIFY, modifications={"depth": 2, "other": 1}), "not_modifiable"),
        (question(modifiable=()), answer(AnswerAction.MODIFY, modifications={"depth": 2}), "action_not_allowed"),
        (question(actions=(AnswerAction.ABORT,)), answer(), "action_not_allowed"),
    ],
)
async def test_an_answer_that_the_question_does_not_allow_is_refused_and_the_question_stays_open(
    tmp_path: Path, asked: Question, given: QuestionAnswer, code: str
) -> None:
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        await inbox.ask(asked)
        with pytest.raises(InvalidRequest) as caught:
            await inbox.answer("q_1", given)
        assert (caught.value.code, inbox.require("q_1").is_open) == (code, True)


async def test_every_declared_modification_is_taken(tmp_path: Path) -> None:
    values: dict[str, Any] = {"depth": 3, "branch": "main", "force": False, "files": ["a", 1]}
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        await inbox.ask(question())
        await inbox.answer("q_1", answer(AnswerAction.MODIFY, modifications=values))
        kept = (await inbox_of(ledger)).require("q_1").answer
        assert kept is not None
        assert kept.modifications == values


async def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        for call in (inbox.answer("q_9", answer()), inbox.withdraw("q_9")):
            with pytest.raises(InvalidRequest) as caught:
                await call
            assert caught.value.code == "no_question"
        assert inbox.get("q_9") is None


async def test_a_question_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        with pytest.raises(InvalidRequest) as caught:
            await inbox.ask(question(context={"output": "x" * 131_072}))
        assert caught.value.code == "too_large"


@pytest.mark.parametrize(
    "changes",
    [{"title": "x" * 257}, {"reason": "x" * 1_025}, {"context": {"a": object()}}, {"asked_at_ms": -1}, {"actions": ()}],
)
async def test_a_question_that_could_not_be_read_again_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        with pytest.raises(InvalidRequest) as caught:
            await inbox.ask(question(**changes))
        assert caught.value.code == "against_contract"
        assert (await inbox_of(ledger)).questions(open_only=False) == []


@pytest.mark.parametrize("changes", [{"responder": ""}, {"message": "x" * 8_193}, {"responded_at_ms": -1}])
async def test_an_answer_that_could_not_be_read_again_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        await inbox.ask(question())
        with pytest.raises(InvalidRequest):
            await inbox.answer("q_1", answer(**changes))
        assert (await inbox_of(ledger)).require("q_1").is_open


async def test_a_question_is_the_same_after_a_restart_whatever_its_context_was_made_of(tmp_path: Path) -> None:
    asked = question(context={"files": ("a", "b"), "kind": AnswerAction.RETRY})
    async with ledger_in(tmp_path) as ledger:
        first = await (await inbox_of(ledger)).ask(asked)
        assert await (await inbox_of(ledger)).ask(asked) == first
        assert first.question.context == {"files": ["a", "b"], "kind": "retry"}


async def test_a_time_beyond_all_calendars_is_still_said(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        await inbox.ask(question(asked_at_ms=2**53 - 1))
        await inbox.answer("q_1", answer(responded_at_ms=2**53 - 1))
        with pytest.raises(StateConflict, match="9007199254740991 ms"):
            await inbox.answer("q_1", answer())


async def test_no_more_than_so_many_questions_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "MAX_OPEN", 2)
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        await inbox.ask(question("q_1"))
        await inbox.ask(question("q_2"))
        with pytest.raises(BrokerBusy):
            await inbox.ask(question("q_3"))
        await inbox.answer("q_1", answer())
        await inbox.ask(question("q_3"))


async def test_long_settled_questions_are_forgotten_and_never_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_module, "MAX_SETTLED", 1)
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger, itertools.count(AT_MS).__next__)
        for name in ("q_1", "q_2", "q_3"):
            await inbox.ask(question(name))
        await inbox.answer("q_2", answer())
        await inbox.answer("q_1", answer())
        again = await inbox_of(ledger)
        await again.forget_oldest()
        for one in (again, await inbox_of(ledger)):
            assert [info.question.question_id for info in one.questions(open_only=False)] == ["q_1", "q_3"]
            with pytest.raises(StateConflict) as caught:
                await one.ask(question("q_2"))
            assert caught.value.code == "question_settled"


async def test_what_was_done_to_deliver_a_question_is_kept_and_its_records_stay_few(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        await inbox.ask(question())
        await inbox.note("q_1", NotificationDelivered("screen", 0, AT_MS + 1))
        await inbox.note("q_1", QuestionReminded(AT_MS + 2))
        for number in range(200):
            await inbox.note("q_1", NotificationFailed("hook", AT_MS + number, "connection refused"))
        again = await inbox_of(ledger)
        assert again.require("q_1") == QuestionInfo(
            question=question(),
            notifications=(
                Notification(channel="screen", tries=1, delivered_at_ms=AT_MS + 1),
                Notification(channel="hook", tries=200, fault="connection refused"),
            ),
            reminders=1,
        )
        (stream,) = await ledger.journal.streams("question/")
        assert stream.head - stream.floor <= inbox_module.CHECKPOINT_RECORDS


async def test_a_checkpoint_never_drops_a_record_that_is_not_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_module, "CHECKPOINT_RECORDS", 3)
    async with ledger_in(tmp_path) as ledger:
        held = HeldJournal(ledger.journal)
        inbox = Inbox(held, lambda: AT_MS)
        await inbox.ask(question())
        await inbox.note("q_1", NotificationFailed("first", AT_MS, "away"))
        held.held = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(inbox.note, "q_1", NotificationDelivered("first", 0, AT_MS + 1))
            tasks.start_soon(inbox.note, "q_1", NotificationDelivered("second", 0, AT_MS + 2))
            await anyio.wait_all_tasks_blocked()
            # The second is still queued when the first is written, and is in no state yet.
            held.release_first()
            await until(inbox, "q_1", lambda info: info.notifications[0].tries == 2)
            await anyio.wait_all_tasks_blocked()
            held.release()
        kept = (await inbox_of(ledger)).require("q_1").notifications
        assert {one.channel for one in kept} == {"first", "second"}


async def test_a_listener_that_fails_hurts_nobody(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger)
        names: list[str] = []
        inbox.listen(_failing)
        inbox.listen(lambda info: names.append(info.question.question_id))
        await inbox.ask(question())
        assert names == ["q_1"]


def _failing(_: QuestionInfo) -> None:
    raise ZeroDivisionError


async def test_records_of_a_newer_program_are_named_and_not_passed_over(tmp_path: Path) -> None:
    async with ledger_in(tmp_path) as ledger:
        await noted(ledger.journal, ("question/q_1", b'{"record":"sung","song":1}'))
        with pytest.raises(InternalError, match="question/q_1"):
            await inbox_of(ledger)
