"""Synthesised events: when they are dispatched, what they say, how often, and what a restart makes of them."""

import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest

from lifebus.observer.stream import AppServerStream
from lifebus_broker.ledger.factory import open_unkept
from lifebus_contract import LifebusError
from lifebus_contract.extensions import (
    ActionResult,
    ActionStatus,
    EmitResult,
    EnqueueResult,
    HandlerError,
    HandlerResult,
    JobIdentity,
)
from lifebus_contract.jobs import EnqueueStatus
from lifebus_supervisor.extensions.rules.dispatch import queue_winner
from lifebus_supervisor.synthesis.rules import is_settled
from lifebus_supervisor.synthesis.synthesizer import STREAM, Synthesizer
from lifebus_supervisor.transcripts.suggestions import Suggestions
from support.adapters.app_server_recordings import RECORDINGS, chunks_of, feed, notice, turn
from support.transcripts.boxes import Box, box_over, transcript_box

T, U = "t1", "u1"
(RECORDING,) = [one for one in RECORDINGS if one.stem == "turn_file_change_approval_accept"]
NOTHING: EmitResult = HandlerResult(module_name="m", event_type="e")


def queued(status: EnqueueStatus = EnqueueStatus.ENQUEUED, job: str = "j") -> EmitResult:
    identity = JobIdentity(id=job, type="command", project_id="p")
    return EnqueueResult(module_name="m", event_type="e", status=status, job=identity)


def acted(status: ActionStatus, **fields: Any) -> EmitResult:
    return ActionResult(module_name="m", event_type="e", action_type="queue.enqueue", status=status, **fields)


class Sink:
    """Keeps what it is told, and answers what a test says; an exception is raised."""

    def __init__(self, *answers: Sequence[EmitResult] | Exception) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        self._answers = list(answers)

    async def emit(self, event_type: str, payload: dict[str, Any]) -> Sequence[EmitResult]:
        self.told.append((event_type, payload))
        answer = self._answers.pop(0) if self._answers else ()
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.told]


def synthesizer(box: Box, sink: Sink, pauses: list[float] | None = None) -> Synthesizer:
    async def pause(seconds: float) -> None:
        if pauses is not None:
            pauses.append(seconds)

    made = Synthesizer(box.journal, box.filler, Suggestions(box.store, box.log), lambda prefix: f"{prefix}1", pause)
    made.sink = sink
    return made


def asked(number: int = 0, item: str = "i1") -> dict[str, Any]:
    return {"method": "item/fileChange/requestApproval", "id": number, "params": _ids(itemId=item)}


def changed(item: str = "i1", diff: str = "+a") -> dict[str, Any]:
    changes = [{"path": "a.txt", "kind": {"type": "add"}, "diff": diff}]
    return notice("item/started", **_ids(item={"type": "fileChange", "id": item, "changes": changes}))


def _ids(**fields: Any) -> dict[str, Any]:
    return {"threadId": T, "turnId": U, **fields}


RESOLVED = notice("serverRequest/resolved", threadId=T, requestId=0)
DONE = turn("turn/completed", T, U, status="completed")


async def test_a_recorded_approval_is_two_events_with_what_the_specification_names() -> None:
    async with transcript_box() as box:
        sink = Sink()
        events = synthesizer(box, sink)
        await box.observe(feed(AppServerStream(), chunks_of(RECORDING)))
        await box.filler.fill_all()
        await events.dispatch_due()
        (asked_name, approval), (ended_name, ended) = sink.told
        assert (asked_name, ended_name) == ("file_change.approval_requested", "turn.completed")
        context = approval["context"]
        thread = context["threadId"]
        assert {
            key: context[key] for key in ("projectId", "sourceSessionId", "itemId", "approvalId", "userRequest")
        } == {
            "projectId": f"session:{thread}",
            "sourceSessionId": thread,
            "itemId": "call_1",
            "approvalId": f"{context['turnId']}:0",
            "userRequest": "Patch it.",
        }
        assert context["turnTranscript"].startswith("USER [userMessage]: Patch it.\nASSISTANT [fileChange]: ")
        assert (approval["sourceEvent"], approval["fileChangeStatus"]) == ("approval_request", "pending_approval")
        assert [one["diff"][:8] for one in json.loads(approval["details"])["changes"]] == ["@@ -1,2 ", "line one"]
        assert approval["summary"] == "2 file changes to approve"
        assert (ended["hadFileChangeRequests"], ended["fileChangeRequestCount"]) == (True, 1)
        assert ended["turnTranscriptSnapshot"].endswith("ASSISTANT [agentMessage]: Done.")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([DONE], []),
        ([changed(), asked(), DONE], ["file_change.approval_requested", "turn.completed"]),
        ([changed(diff=""), asked(), DONE], ["turn.completed"]),
        ([asked(), DONE], ["turn.completed"]),
        ([changed(), asked(), asked(1), RESOLVED, DONE], ["file_change.approval_requested"] * 2 + ["turn.completed"]),
    ],
    ids=["no request", "a request", "an empty change", "no change is known", "two requests"],
)
async def test_an_event_is_dispatched_where_there_is_something_to_decide(
    messages: list[Any], expected: list[str]
) -> None:
    async with transcript_box() as box:
        sink = Sink()
        events = synthesizer(box, sink)
        await box.say(*messages)
        await events.dispatch_due()
        await events.dispatch_due()
        assert sink.names == expected
        if "turn.completed" in expected:
            assert sink.told[-1][1]["fileChangeRequestCount"] == 1


async def test_what_is_due_is_dispatched_after_a_restart_and_a_settled_approval_is_not_asked_again() -> None:
    async with aclosing(await open_unkept()) as ledger:
        box = await box_over(ledger.journal)
        synthesizer(box, Sink())
        await box.say(changed(), asked(0), changed("i2"), asked(1, "i2"))
        again = await box_over(ledger.journal)
        sink = Sink()
        events = synthesizer(again, sink)
        again._observed = 1
        await again.say(RESOLVED, DONE)
        events._restored = 2
        await events.dispatch_due()
        # The turn took the second request with it; its gate finds both, settled as they are.
        assert sink.names == ["turn.completed"]
        assert sink.told[0][1]["fileChangeRequestCount"] == 2
        assert [one.bytes for one in await ledger.journal.streams(STREAM)] == [0]


async def test_an_approval_that_is_still_pending_after_a_restart_is_reconciled() -> None:
    async with aclosing(await open_unkept()) as ledger:
        box = await box_over(ledger.journal)
        synthesizer(box, Sink())
        await box.say(changed(), asked())
        sink = Sink()
        events = synthesizer(await box_over(ledger.journal), sink)
        events._restored = 1
        await events.dispatch_due()
        assert [(name, event["sourceEvent"]) for name, event in sink.told] == [
            ("file_change.approval_requested", "approvals_reconcile")
        ]


@pytest.mark.parametrize(
    ("answers", "tries"),
    [
        ([()], 1),
        ([[queued()]], 1),
        ([[NOTHING], [NOTHING], [NOTHING]], 3),
        ([[NOTHING], [acted(ActionStatus.NOT_ELIGIBLE)]], 2),
        ([[acted(ActionStatus.FAILED)], RuntimeError("no"), [queued()]], 3),
        ([RuntimeError("no")] * 3, 3),
    ],
    ids=["nobody listens", "queued", "nothing comes of it", "overtaken", "fails first", "always fails"],
)
async def test_an_event_is_tried_three_times_at_most_with_growing_pauses(answers: list[Any], tries: int) -> None:
    async with transcript_box() as box:
        sink, pauses = Sink(*answers), list[float]()
        events = synthesizer(box, sink, pauses)
        await box.say(asked(), DONE)
        await events.dispatch_due()
        assert sink.names == ["turn.completed"] * tries
        assert pauses == [0.06, 0.12][: tries - 1]
        await events.dispatch_due()
        assert len(sink.told) == tries


@pytest.mark.parametrize("kind", ["deleted", "system"])
async def test_no_event_tells_of_a_session_that_is_deleted_or_the_broker_s_own(kind: str) -> None:
    async with transcript_box(T) as box:
        sink = Sink()
        events = synthesizer(box, sink)
        await box.say(changed(), asked(), DONE)
        await (box.store.delete(T) if kind == "deleted" else box.marks.mark_system(T, 1))
        await events.dispatch_due()
        with pytest.raises(LifebusError) as refused:
            await events.suggest(T)
        assert refused.value.code == {"deleted": "session_deleted", "system": "no_session"}[kind]
        assert sink.told == []


async def test_a_request_to_suggest_is_about_the_newest_turn() -> None:
    async with transcript_box() as box:
        sink = Sink([queued()])
        events = synthesizer(box, sink)
        said = [{"type": "text", "text": "do it"}]
        await box.say(notice("item/completed", **_ids(item={"type": "userMessage", "id": "i", "content": said})))
        event, results = await events.suggest(T, draft="now")
        assert queue_winner(results) is not None
        assert sink.told == [
            (
                "suggest_request.requested",
                {
                    "requestKey": event.request_key,
                    "sessionId": T,
                    "projectId": f"session:{T}",
                    "threadId": T,
                    "turnId": U,
                    "userRequest": "do it",
                    "turnTranscript": "USER [userMessage]: do it",
                    "draft": "now",
                },
            )
        ]


def test_the_job_that_wins_is_the_first_that_was_queued_by_whatever_way() -> None:
    there = queued(EnqueueStatus.ALREADY_QUEUED, "old")
    by_action = acted(ActionStatus.PERFORMED, details={"job": {"id": "a", "type": "command", "projectId": "p"}})
    failed = HandlerError(module_name="m", event_type="e", error="x")
    assert [
        None if (won := queue_winner(one)) is None else won.job.id
        for one in (
            [],
            [NOTHING, failed],
            [there],
            [there, queued()],
            [there, by_action],
            [acted(ActionStatus.PERFORMED)],
        )
    ] == [None, None, "old", "j", "a", None]
    assert not is_settled([failed])
