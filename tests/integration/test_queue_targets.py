"""Entries that end with their job: the queue and the transcripts of one broker, and of the one that comes next."""

from typing import Any

import anyio
import pytest

import lifebus
from lifebus_contract.jobs import JobState, NewJob
from lifebus_contract.transcripts import TranscriptEntry
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_supervisor.queue.targets import TargetSettler
from support.broker_process import until
from support.running import connected, settings_in, short_directory
from support.transcripts.boxes import until_read

S = "s1"
SUGGESTION = '{"suggestion": "do this"}'
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
    await until(lambda: daemon.queue.job(job_id).state is JobState.COMPLETED)


async def test_an_entry_begins_and_ends_with_its_job_and_is_followed() -> None:
    with short_directory() as directory:
        async with running(settings_in(directory)) as daemon, connected(daemon) as bus:
            await bus.emit(lifebus.make_request("session.started", "codex", session=S))
            await daemon.queue.enqueue(job("long", "sleep", "600"))
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
            async with running(settings) as daemon, connected(daemon) as bus:
                await bus.emit(lifebus.make_request("session.started", "codex", session=S))
                await daemon.queue.enqueue(job("short", "echo", SUGGESTION, completionSignal=SIGNAL))
                await over(daemon, "short")
                assert (await entry_of(bus, "short", "streaming")).content == "Reviewing"
                assert (await bus.transcripts.suggestion(S, "k")).status == "streaming"
        async with running(settings) as daemon, connected(daemon) as bus:
            assert (await entry_of(bus, "short", "complete")).content == "Reviewed"
            await until(lambda: daemon.queue.indexes.jobs["short"].require().settled)
            stands = await bus.transcripts.suggestion(S, "k")
            assert (stands.status, stands.suggestion) == ("complete", "do this")
            events = bus.signals(adapter="lifebus", thread="queue/p", since="start", until_head=True)
            told = [item.envelope async for item in events]
            said = [one["payload"]["status"] for one in told if one["type"] == "suggested_request_updated"]
            assert said == ["streaming", "complete"]
