"""Entries that end with their job: the queue and the transcripts of one broker, and of the one that comes next."""

import asyncio
from typing import Any

import anyio
import pytest
from msgspec import structs

import lifebus
from lifebus_contract import InvalidRequest
from lifebus_contract.jobs import EnqueueStatus, JobState, NewJob, SuggestionStatus
from lifebus_contract.transcripts import TranscriptEntry
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.queue.targets import TargetSettler
from lifebus_transports.messages.transcripts import SuggestedJob
from support.broker_process import broker_process, until
from support.parts import running_whole, sessions_of
from support.patience import PATIENCE_S
from support.running import connected, settings_in, short_directory
from support.transcripts.boxes import until_read

S = "s1"
SUGGESTION = '{"suggestion": "do this"}'
FAR_MS = 4_000_000_000_000
"""In the year 2096."""

SIGNAL = {"kind": "suggested_request", "requestKey": "k"}


def job(job_id: str, *argv: str, **payload: Any) -> NewJob:
    target = {
        "messageId": job_id,
        "type": "review",
        "placeholderTexts": ["Reviewing"],
        "completeFallback": "Reviewed",
        "canceledFallback": "Not reviewed",
    }
    work = {"argv": list(argv), "cwd": "/", "supplementalTargets": [target], **payload}
    return NewJob(type="command", project_id="p", payload=work, job_id=job_id, source_session_id=S, max_attempts=1)


async def entry_of(bus: lifebus.Bus, job_id: str, status: str) -> TranscriptEntry:
    """The entry of a job once it stands so."""

    def found(entries: list[TranscriptEntry]) -> list[TranscriptEntry]:
        return [one for one in entries if one.message_id == job_id and one.status == status]

    return found(await until_read(lambda: bus.transcripts.entries(S), found))[0]


async def over(daemon: Daemon, job_id: str) -> None:
    await until(lambda: sessions_of(daemon).queue.job(job_id).state is JobState.COMPLETED)


async def test_an_entry_begins_and_ends_with_its_job_and_is_followed() -> None:
    with short_directory() as directory:
        async with running_whole(settings_in(directory)) as daemon, connected(daemon) as bus:
            await bus.emit(lifebus.make_request("session.started", "codex", session=S))
            await sessions_of(daemon).queue.enqueue(job("long", "sleep", "600"))
            assert (await entry_of(bus, "long", "streaming")).content == "Reviewing"
            await bus.jobs.cancel("long")
            assert (await entry_of(bus, "long", "canceled")).content == "Not reviewed"
            followed = bus.signals(adapter="lifebus", thread=f"transcript/{S}", since="start", until_head=True)
            told = [item.envelope["payload"]["entry"] async for item in followed]
            assert [(one["messageId"], one["status"]) for one in told] == [("long", "streaming"), ("long", "canceled")]


async def test_the_next_broker_ends_what_the_one_before_did_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with short_directory() as directory:
        settings = settings_in(directory)
        with monkeypatch.context() as patch:
            patch.setattr(TargetSettler, "run", lambda _: anyio.sleep_forever())
            async with running_whole(settings) as daemon, connected(daemon) as bus:
                await bus.emit(lifebus.make_request("session.started", "codex", session=S))
                await sessions_of(daemon).queue.enqueue(job("short", "echo", SUGGESTION, completionSignal=SIGNAL))
                await over(daemon, "short")
                assert (await entry_of(bus, "short", "streaming")).content == "Reviewing"
                assert (await bus.transcripts.suggestion(S, "k")).status == "streaming"
        async with running_whole(settings) as daemon, connected(daemon) as bus:
            assert (await entry_of(bus, "short", "complete")).content == "Reviewed"
            await until(lambda: sessions_of(daemon).queue.indexes.jobs["short"].require().settled)
            stands = await bus.transcripts.suggestion(S, "k")
            assert (stands.status, stands.suggestion) == ("complete", "do this")
            events = bus.signals(adapter="lifebus", thread="queue/p", since="start", until_head=True)
            told = [item.envelope async for item in events]
            said = [one["payload"]["status"] for one in told if one["type"] == "suggested_request_updated"]
            assert said == ["streaming", "complete"]


def asked(job_id: str, key: str = "k") -> SuggestedJob:
    """What `suggest` returns of a job."""
    return SuggestedJob(
        session_id=S, request_key=key, project_id="p", job_id=job_id, status=EnqueueStatus.ALREADY_QUEUED
    )


async def test_a_suggestion_is_waited_for_under_the_key_that_its_job_has_and_ends_with_the_job() -> None:
    with short_directory() as directory:
        async with running_whole(settings_in(directory)) as daemon, connected(daemon) as bus:
            await bus.emit(lifebus.make_request("session.started", "codex", session=S))
            await sessions_of(daemon).queue.enqueue(job("says", "echo", SUGGESTION, completionSignal=SIGNAL))
            await sessions_of(daemon).queue.enqueue(job("mute", "sh", "-c", "exit 70"))
            with anyio.fail_after(PATIENCE_S):
                said = await bus.transcripts.wait_suggestion(asked("says", "of another call"))
                assert (said.request_key, said.status, said.suggestion) == ("k", "complete", "do this")
                # A job that answers no suggested request may have said it itself; else there is its error alone.
                mute = await bus.transcripts.wait_suggestion(asked("mute", "nobody's"))
                assert (mute.status, mute.error) == ("error", "the program ended with exit code 70")
                itself = await bus.transcripts.upsert_suggestion(S, "itself", SuggestionStatus.COMPLETE, suggestion="x")
                assert await bus.transcripts.wait_suggestion(asked("mute", "itself")) == itself
                with pytest.raises(InvalidRequest) as unknown:
                    await bus.transcripts.wait_suggestion(asked("none"))
                assert unknown.value.code == "no_job"


@pytest.mark.parametrize("signal", [{"completionSignal": SIGNAL}, {}], ids=["written for it", "not written"])
async def test_who_waits_for_a_suggestion_waits_on_with_the_next_broker(signal: dict[str, Any]) -> None:
    late = structs.replace(job("late", "true", **signal), not_before_ms=FAR_MS)
    with short_directory() as directory:
        async with (
            broker_process(directory) as first,
            lifebus.connect("test", runtime_dir=first.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            await bus.emit(lifebus.make_request("session.started", "codex", session=S))
            await bus.jobs.enqueue(late)
            waiting = asyncio.ensure_future(bus.transcripts.wait_suggestion(asked("late")))
            await asyncio.sleep(0)  # it has sent its request
            await bus.jobs.show("late")  # answered by the same broker, behind it
            await first.kill()
            async with broker_process(directory):
                await bus.jobs.cancel("late")
                stands = await asyncio.wait_for(waiting, PATIENCE_S)
    assert stands.status == ("canceled" if signal else "error")
