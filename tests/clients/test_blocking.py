"""The blocking facade: the same bus for scripts without an event loop."""

import threading
from pathlib import Path

import pytest

import lifebus
import lifebus.blocking
from lifebus.loa.checkpoint import LOA_CHECKPOINT
from lifebus_contract import (
    CallbackRequest,
    CallbackResponse,
    CapabilityRequest,
    DispatchEnvelope,
    FrameClass,
    FrameContext,
    InvalidRequest,
    LifebusError,
    Receipt,
    ReceiptStatus,
    RequirementLevel,
    StateConflict,
    TransportError,
)
from lifebus_contract.jobs import NewJob, SuggestionStatus
from lifebus_contract.runs import CostRecord, RunStatus, StepStatus
from lifebus_transports.messages.reads import Backfill
from lifebus_transports.messages.transcripts import SuggestedJob
from support.clients.checkpoints import document
from support.command_line import Shell, broker_up
from support.inbox.questions import question
from support.integration.observing import Observer, places, signal
from support.patience import PATIENCE_S
from support.running import short_directory
from support.transcripts.boxes import entry

FRAME = FrameContext(frame_id="f1", frame_class=FrameClass.TOP_LEVEL)


def started(session: str = "s") -> CallbackRequest:
    return lifebus.make_request("session.started", "codex", session=session)


def test_a_script_emits_reads_and_asks() -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell), lifebus.blocking.connect("script", runtime_dir=directory / "run") as bus:
            assert bus.emit(started()).receipts[0].sequence == 1
            assert [one.positions for one in bus.emit([started(), started("t")])] == [(2,), (3,)]
            assert bus.tick("codex", session="s").receipts[0].event == "supervisor.tick"
            seen = [item.sequence for item in bus.receipts(since="start", until_head=True) if isinstance(item, Receipt)]
            assert seen == [1, 2, 1, 3]
            requirement = CapabilityRequest(capability="approval_surface", level=RequirementLevel.PREFERRED)
            assert bus.negotiate("codex", [requirement]).outcome == "degraded"
            assert {one.harness_session_id for one in bus.sessions()} == {"s", "t"}
            assert (bus.clients(), len(bus.manifests()), bus.status().ledger.head) == ([], 7, 4)
            assert bus.read(Backfill(limit=1)).next == 1
            assert bus.verify().faults == ()


def test_a_script_saves_a_checkpoint_and_its_digest_is_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        monkeypatch.setenv("LIFEBUS_STATE_DIR", str(directory / "state"))
        with broker_up(shell), lifebus.blocking.connect("script", runtime_dir=directory / "run") as bus:
            saved = bus.checkpoints.save(document(), kind=LOA_CHECKPOINT, root=directory, session=("codex", "s"))
            assert (saved.is_new, saved.fault) == (True, None)
            receipts = [one for one in bus.receipts(since="start", until_head=True) if isinstance(one, Receipt)]
            assert [one.payload_receipts[0].payload_id for one in receipts] == [saved.info.checkpoint_id]
            with pytest.raises(InvalidRequest, match="version"):
                bus.checkpoints.save(document(version=2), kind=LOA_CHECKPOINT, root=directory)
            found = bus.checkpoints.get(saved.info.name, kind=LOA_CHECKPOINT, root=directory)
            assert found is not None
            assert found.info == saved.info
            assert bus.checkpoints.list(kind=LOA_CHECKPOINT, root=directory) == [saved.info]
            assert bus.checkpoints.verify(found, kind=LOA_CHECKPOINT, root=directory) == ()
            assert bus.checkpoints.get("nothing", kind=LOA_CHECKPOINT, root=directory) is None


def test_a_script_saves_and_sees_what_is_open() -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell), lifebus.blocking.connect("script", runtime_dir=directory / "run") as bus:
            bus.emit([started(), lifebus.make_request("frame.opened", "codex", session="s", frame=FRAME)])
            saved = bus.save("SESSION")
            assert (saved.position, saved.new, bus.save("SESSION").new) == (2, True, False)
            state = bus.resume()
            assert state.position == 2
            assert [frame.frame_id for session in state.sessions for frame in session.frames] == ["f1"]
            assert "PENDING_ROLL" in (state.pending or {})


def test_a_script_asks_people_and_waits_for_their_answers() -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell), lifebus.blocking.connect("script", runtime_dir=directory / "run") as bus:
            asked = bus.inbox.ask(question())
            assert bus.inbox.ask(question("q_2")).is_open
            assert [info.question.question_id for info in bus.inbox.questions()] == ["q_1", "q_2"]
            assert bus.inbox.show("q_1") == asked
            answered = bus.inbox.answer("q_1", "modify", modifications={"depth": 2}, responder="bob")
            assert bus.inbox.wait("q_1") == answered
            assert answered.answer is not None
            assert (answered.answer.responder, answered.answer.modifications) == ("bob", {"depth": 2})
            assert bus.inbox.withdraw("q_2").withdrawn_at_ms is not None
            assert (bus.inbox.questions(), len(bus.inbox.questions(open_only=False))) == ([], 2)


def test_a_script_runs_a_flow_and_answers_what_it_asks(tmp_path: Path) -> None:
    file = tmp_path / "f.toml"
    file.write_text(
        '[[phases]]\nname = "one"\nshell = "echo one; exit 2"\n[[phases]]\nname = "two"\nshell = "echo 2 > out"\n'
    )
    with (
        short_directory() as directory,
        broker_up(Shell(directory)),
        lifebus.blocking.connect("script", runtime_dir=directory / "run") as bus,
    ):
        run = bus.flows.submit(file, run_id="r-1")
        for run in bus.flows.follow("r-1"):
            if run.status is RunStatus.WAITING:  # and for a moment after the answer, too, when none is open any more
                for info in bus.inbox.questions():
                    bus.inbox.answer(info.question.question_id, "proceed")
        assert (run.status, (tmp_path / "out").read_text()) == (RunStatus.COMPLETED, "2\n")
        assert bus.flows.logs("r-1", "one").text == "one\n"
        assert [one.run_id for one in bus.flows.list("completed")] == ["r-1"]
        assert bus.flows.show("r-1").run.steps[0].status is StepStatus.SKIPPED
        assert bus.flows.signals("r-1", "two").max_retries == 3
        bus.flows.cost(CostRecord(run_id="r-1", step_id="one", key="k", input_tokens=5, cost_micros=7))
        assert bus.flows.costs("r-1").cost_micros == 7
        assert len(bus.flows.events("r-1")) > 4
        for call in (bus.flows.abort, bus.flows.resume):
            with pytest.raises(StateConflict, match="completed"):
                call("r-1")


def test_a_script_follows_signals() -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell), lifebus.blocking.connect(runtime_dir=directory / "run") as bus:
            bus._portal.call(Observer(bus._bus).observe, signal("t1"), signal("t2"), signal("t1"))
            signals = bus.signals(thread="t1", since="start", until_head=True)
            assert places(list(signals)) == {"t1": [1, 2]}
            assert signals.cursors["t1"].position == 2
            assert places(list(bus.signals(last=1, event="*.delta", until_head=True))) == {"t1": [2], "t2": [1]}


def test_a_subscription_waits_for_what_comes_and_can_go_on_from_its_cursor() -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell), lifebus.blocking.connect(runtime_dir=directory / "run") as bus:
            bus.emit(started())
            receipts = bus.receipts(session=("codex", "s"), since="start")
            assert isinstance(next(receipts), Receipt)
            later = threading.Timer(0.05, bus.emit, (started(),))
            later.start()
            item = next(receipts)
            later.join()
            assert isinstance(item, Receipt)
            assert item.sequence == 2
            cursor = receipts.cursor
            receipts.close()
            bus.emit(started())
            assert len(list(bus.receipts(since=cursor, until_head=True))) == 1


def test_errors_come_through_as_they_are() -> None:
    with short_directory() as directory:
        with pytest.raises(TransportError, match="no broker"), lifebus.blocking.connect(runtime_dir=directory):
            pass
        shell = Shell(directory)
        with broker_up(shell), lifebus.blocking.connect(runtime_dir=directory / "run") as bus:
            with pytest.raises(InvalidRequest):
                bus.emit(lifebus.make_request("session.started", "codex", session=""))
            with pytest.raises(LifebusError, match="did you mean `codex`"):
                bus.emit(lifebus.make_request("session.started", "codx"))


def test_a_handler_in_plain_python_serves_dispatches_from_threads() -> None:
    asked: list[str] = []
    registered, stop = threading.Event(), threading.Event()

    def handle(_: DispatchEnvelope) -> CallbackResponse:
        asked.append(threading.current_thread().name)
        return CallbackResponse.ok(ReceiptStatus.SKIPPED)

    def serve() -> None:
        with lifebus.blocking.connect("worker", runtime_dir=directory / "run") as bus:
            bus.serve(["session.started"], handle, on_ready=registered.set, stop=stop)

    with (
        short_directory() as directory,
        broker_up(Shell(directory)),
        lifebus.blocking.connect("emitter", runtime_dir=directory / "run") as bus,
    ):
        serving = threading.Thread(target=serve)
        serving.start()
        assert registered.wait(PATIENCE_S)
        assert bus.emit(started()).receipts[0].status is ReceiptStatus.SKIPPED
        assert bus.clients()[0].client_id == "worker"
        stop.set()
        serving.join(PATIENCE_S)
        assert not serving.is_alive()
        assert bus.clients() == []
    assert asked
    assert asked[0] != threading.main_thread().name


def test_a_script_consumes_under_a_name() -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell), lifebus.blocking.connect("script", runtime_dir=directory / "run") as bus:
            bus.emit([started(), started(), started()])
            with bus.consume("mirror", since="start") as deliveries:
                first = next(deliveries)
                assert isinstance(first, lifebus.Delivery)
                assert (first.position, deliveries.ready) == (1, 2)
                deliveries.nack([first], delay=0)
                rest = [next(deliveries) for _ in range(3)]
                assert [one.position for one in rest if isinstance(one, lifebus.Delivery)] == [2, 3, 1]
                deliveries.ack([one for one in rest if isinstance(one, lifebus.Delivery)])
            with pytest.raises(ZeroDivisionError), bus.consume("mirror"):
                raise ZeroDivisionError


def test_a_script_keeps_transcripts_and_suggested_requests() -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell), lifebus.blocking.connect("script", runtime_dir=directory / "run") as bus:
            bus.emit(started())
            transcripts = bus.transcripts
            written = transcripts.upsert("s", entry("m1", content="all", started_at=5))
            merged = transcripts.upsert("s", entry("m1", content="a", status="streaming", started_at=1))
            assert (merged.content, merged.started_at) == ("all", 1)
            assert transcripts.entries("s") == [merged] != [written]
            page = transcripts.page("s", after=0, limit=1)
            assert [(one.sequence, one.entry) for one in page.entries] == [(1, merged)]
            assert transcripts.info("s") == page.info
            assert [one.session_id for one in transcripts.list()] == ["s"]
            with pytest.raises(StateConflict, match="no extension queued"):
                transcripts.suggest("s", draft="d")
            stands = transcripts.upsert_suggestion("s", "k", SuggestionStatus.COMPLETE, suggestion="do this")
            assert transcripts.upsert_suggestion("s", "k", SuggestionStatus.STREAMING) == stands
            assert transcripts.suggestion("s", "k") == transcripts.suggestion("s", "k", wait_ms=30_000) == stands
            done = bus.jobs.enqueue(NewJob(type="command", project_id="p", payload={"argv": ["true"], "cwd": "/"}))
            said = SuggestedJob(session_id="s", request_key="k", project_id="p", job_id=done.job.id, status=done.status)
            assert transcripts.wait_suggestion(said) == stands
            with pytest.raises(InvalidRequest) as unknown:
                transcripts.suggestion("s", "other")
            assert unknown.value.code == "no_suggested_request"
