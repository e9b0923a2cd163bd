"""Transcripts over a running broker: what an observer sends is read, followed, and gone with its session."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import lifebus
from lifebus.observer.stream import AppServerStream
from lifebus.signals import SignalReceived
from lifebus_contract import LifebusError
from lifebus_contract.extensions import EmitResult
from lifebus_contract.jobs import NewJob, SuggestionStatus
from lifebus_contract.transcripts import TranscriptEntry
from lifebus_supervisor.daemon.composition import Daemon
from support.adapters.app_server_recordings import RECORDINGS, chunks_of, feed, notice, read_messages, turn
from support.broker_process import until
from support.integration.observing import Observer, as_sent, drain_signals, take_signals
from support.parts import running_whole, sessions_of
from support.running import connected, running_bus, settings_in, short_directory
from support.transcripts.boxes import entry, until_read

T, U = "t1", "u1"
SAID = notice("item/completed", threadId=T, turnId=U, item={"type": "agentMessage", "id": "i1", "text": "said"})


async def entries_of(bus: lifebus.Bus, session: str, holds: Callable[[list[TranscriptEntry]], object]) -> list[Any]:
    """The entries of a session once they are as they should be."""
    return await until_read(lambda: bus.transcripts.entries(session), holds)


async def test_a_recording_is_read_followed_and_the_same_after_a_restart() -> None:
    (recording,) = [one for one in RECORDINGS if one.stem == "two_threads_interleaved"]
    observed = as_sent(feed(AppServerStream(), chunks_of(recording)))
    threads = sorted({one.thread for one in observed} - {""})
    with short_directory() as directory:
        settings = settings_in(directory)
        kept: dict[str, list[TranscriptEntry]] = {}
        async with running_whole(settings) as daemon, connected(daemon) as bus:
            observer = Observer(bus)
            for one in observed:
                await observer.observe(one)
            for thread in threads:
                kept[thread] = await entries_of(bus, thread, lambda found: found and found[-1].status == "complete")
                page = await bus.transcripts.page(thread)
                followed = bus.signals(adapter="lifebus", thread=f"transcript/{thread}", since="start", until_head=True)
                deltas = [item for item in await drain_signals(followed) if isinstance(item, SignalReceived)]
                assert [one.sequence for one in deltas] == list(range(1, page.through + 1))
                by_id = {one.envelope["payload"]["messageId"]: one.envelope["payload"]["entry"] for one in deltas}
                assert [one["content"] for one in by_id.values()] == [one.content for one in kept[thread]]
        assert [one.content for one in kept[threads[0]]] == ["one", "Alpha alpha alpha."]
        assert [one.content for one in kept[threads[1]]] == ["two", "Beta beta beta."]
        async with running_whole(settings) as daemon, connected(daemon) as bus:
            for thread in threads:
                assert await bus.transcripts.entries(thread) == kept[thread]
            assert [one.session_id for one in await bus.transcripts.list()] == threads


async def test_an_upsert_is_followed_with_the_merged_entry() -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))
        signals = bus.signals(adapter="lifebus", thread="transcript/s1", since="start")
        await bus.transcripts.upsert("s1", entry(content="all"))
        await bus.transcripts.upsert("s1", entry(content="a", status="streaming", started_at=1))
        told = [one.envelope for one in await take_signals(signals, 2) if isinstance(one, SignalReceived)]
        assert [one["payload"]["entry"]["content"] for one in told] == ["all", "all"]
        assert told[1]["payload"]["entry"]["status"] == "complete"


Door = Callable[[Daemon, lifebus.Bus, str], Awaitable[str]]


async def upsert(_: Daemon, bus: lifebus.Bus, session: str) -> str:
    return (await bus.transcripts.upsert(session, entry("mine"))).message_id


async def show(_: Daemon, bus: lifebus.Bus, session: str) -> str:
    await bus.transcripts.page(session)
    return "shown"


async def info(_: Daemon, bus: lifebus.Bus, session: str) -> str:
    found = await bus.transcripts.info(session)
    return "deleted" if found.deleted_at else "system" if found.system_owned else "user"


async def listed(_: Daemon, bus: lifebus.Bus, session: str) -> str:
    names = [
        [one.session_id for one in await bus.transcripts.list(**flags)]
        for flags in ({}, {"system_owned": True}, {"deleted": True})
    ]
    return " ".join("yes" if session in found else "no" for found in names)


async def signal_kept(daemon: Daemon, bus: lifebus.Bus, session: str) -> str:
    """A signal that comes now, and what a follower finds of it."""
    before = {one.thread: one.head for one in await daemon.signals.threads("codex", session)}
    said = notice(
        "item/completed", threadId=session, turnId=U, item={"type": "agentMessage", "id": "late", "text": "x"}
    )
    await Observer(bus, origin=f"late-{session}").observe(*as_sent(read_messages(said)))
    after = {one.thread: one.head for one in await daemon.signals.threads("codex", session)}
    return "kept" if after != before else "dropped"


async def filled(daemon: Daemon, bus: lifebus.Bus, session: str) -> str:
    """Whether the item that the signal above told of is in the transcript once the filler has come by."""
    await signal_kept(daemon, bus, session)
    await sessions_of(daemon).transcripts.filler.fill("codex", session)
    names = [one.entry.message_id for one in await sessions_of(daemon).transcripts.store.read(session)]
    return "filled" if "late" in names else "no"


async def suggestion(_: Daemon, bus: lifebus.Bus, session: str) -> str:
    stands = await bus.transcripts.upsert_suggestion(session, "k", SuggestionStatus.COMPLETE, suggestion="do")
    return stands.status.value


async def suggest(_: Daemon, bus: lifebus.Bus, session: str) -> str:
    await bus.transcripts.suggest(session)
    return "suggested"


async def queue_target(daemon: Daemon, bus: lifebus.Bus, session: str) -> str:
    """What becomes of the entry that a job of a session has as its target."""
    payload = {"argv": ["true"], "cwd": "/", "supplementalTargets": [{"messageId": "target", "type": "note"}]}
    job_id = f"job-{session}"
    new = NewJob(type="command", project_id=session, payload=payload, job_id=job_id, source_session_id=session)
    await sessions_of(daemon).queue.enqueue(new)
    await until(lambda: sessions_of(daemon).queue.indexes.jobs[job_id].require().settled)
    found = [one.entry.status.value for one in await sessions_of(daemon).transcripts.store.read(session)]
    return found[-1] if found else "none"


async def synthesised(daemon: Daemon, bus: lifebus.Bus, session: str) -> str:
    """Whether handlers are told of a change of files that is to be approved."""
    told: list[str] = []

    class Sink:
        async def emit(self, event_type: str, payload: dict[str, Any]) -> list[EmitResult]:
            told.append(payload["context"]["threadId"])
            return []

    sessions_of(daemon).synthesis.sink = Sink()
    changes = [{"path": "a", "kind": {"type": "add"}, "diff": "+a"}]
    item = {"type": "fileChange", "id": "f", "changes": changes}
    ids = {"threadId": session, "turnId": U}
    ask = {"method": "item/fileChange/requestApproval", "id": 0, "params": {**ids, "itemId": "f"}}
    observed = read_messages(notice("item/started", **ids, item=item), ask)
    await Observer(bus, origin=f"asks-{session}").observe(*as_sent(observed))
    await sessions_of(daemon).transcripts.filler.fill("codex", session)
    await until_read(
        lambda: daemon.bus.ledger.journal.streams("synthesis-due"), lambda kept: not any(one.bytes for one in kept)
    )
    return "told" if told == [session] else f"{told or 'silent'}"


DOORS: list[tuple[Door, dict[str, str]]] = [
    (upsert, {"user": "mine", "system": "mine", "deleted": "session_deleted", "unknown": "no_session"}),
    (show, {"user": "shown", "system": "shown", "deleted": "session_deleted", "unknown": "no_session"}),
    (info, {"user": "user", "system": "system", "deleted": "deleted", "unknown": "no_session"}),
    (listed, {"user": "yes yes yes", "system": "no yes no", "deleted": "no no yes", "unknown": "no no no"}),
    (signal_kept, {"user": "kept", "system": "dropped", "deleted": "dropped", "unknown": "kept"}),
    (suggestion, {"user": "complete", "system": "no_session", "deleted": "session_deleted", "unknown": "no_session"}),
    (suggest, {"user": "no_suggestion", "system": "no_session", "deleted": "session_deleted", "unknown": "no_session"}),
    (queue_target, {"user": "complete", "system": "complete", "deleted": "none", "unknown": "none"}),
    (synthesised, {"user": "told", "system": "silent", "deleted": "silent", "unknown": "told"}),
    (filled, {"user": "filled", "system": "no", "deleted": "no", "unknown": "filled"}),
]
"""What each door answers for each kind of session (docs/transcripts.md, "Whose sessions")."""


@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
@pytest.mark.parametrize(("door", "expected"), DOORS, ids=[door.__name__ for door, _ in DOORS])
async def test_each_door_keeps_to_whose_session_it_is(door: Door, expected: dict[str, str], restarted: bool) -> None:
    with short_directory() as directory:
        settings = settings_in(directory)
        async with running_whole(settings) as daemon, connected(daemon) as bus:
            await _make_sessions(daemon, bus)
            if not restarted:
                assert await _asked(door, daemon, bus, expected) == expected
        if restarted:
            async with running_whole(settings) as daemon, connected(daemon) as bus:
                assert await _asked(door, daemon, bus, expected) == expected


async def _make_sessions(daemon: Daemon, bus: lifebus.Bus) -> None:
    store, observer = sessions_of(daemon).transcripts.store, Observer(bus)
    for session in ("user", "deleted"):
        await observer.observe(*as_sent(read_messages(turn("turn/started", session, U))))
        await bus.transcripts.upsert(session, entry())
    await observer.observe(*as_sent(read_messages(notice("thread/deleted", threadId="deleted"))))
    await store.marks.mark_system("system", 1)
    await bus.transcripts.upsert("system", entry())


async def _asked(door: Door, daemon: Daemon, bus: lifebus.Bus, kinds: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for kind in kinds:
        try:
            found[kind] = await door(daemon, bus, kind)
        except LifebusError as fault:
            found[kind] = fault.code or fault.failure_class.value
    return found


async def test_the_deletion_of_a_thread_drops_what_was_kept_of_it() -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        observer = Observer(bus)
        await observer.observe(*as_sent(read_messages(SAID)))
        await entries_of(bus, T, bool)
        await observer.observe(*as_sent(read_messages(notice("thread/deleted", threadId=T))))
        with pytest.raises(LifebusError) as gone:
            await bus.transcripts.entries(T)
        assert gone.value.code == "session_deleted"
        thread = f"transcript/{T}"
        followed = bus.signals(adapter="lifebus", thread=thread, since="start", until_head=True, gaps="yield")
        (gap,) = await drain_signals(followed)
        assert isinstance(gap, lifebus.Gap)
        assert gap.reason == "deleted"
        kept = await daemon.bus.ledger.journal.streams("transcript/")
        assert [one.bytes for one in kept] == [0]
        assert json.dumps("said") not in str(await daemon.signals.read("codex", T, 0, 10))
