"""What a session leaves open in its transcript when it ends in the middle of a turn, over a running broker."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

import lifebus
from lifebus_broker.ports import StoredReceipt
from lifebus_contract.transcripts import TranscriptEntry
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.transcripts import endings
from lifebus_supervisor.transcripts.endings import SessionEndings
from lifebus_transports.messages.signals import ObservedExit, ObservedFact, ObservedSignal
from support.integration.observing import Observer, signal
from support.parts import running_whole, sessions_of
from support.patience import PATIENCE_S
from support.running import connected, running_bus, settings_in, short_directory
from support.transcripts.boxes import until_read

T, U = "t1", "u1"
OPENED = ObservedFact(fact={"type": "ThreadOpened", "session": T, "how": "started", "method": "thread/started"})
CLOSED = {"type": "ThreadClosed", "evidence": "it was closed", "how": "completed"}
BEGAN = ObservedFact(fact={"type": "TurnStarted", "session": T, "frame_id": U})


def said(method: str, event: str, number: int | None = None, **params: Any) -> ObservedSignal:
    about: dict[str, Any] = {"method": method, "context": {"threadId": T, "turnId": U}, "params": params}
    about |= {} if number is None else {"requestId": number}
    return signal(T, event=f"app_server.{event}", **about)


def begins(name: str) -> ObservedSignal:
    return said("item/started", "item.started", item={"type": "agentMessage", "id": name, "text": ""})


def piece(text: str, name: str = "i1") -> ObservedSignal:
    return said("item/agentMessage/delta", "item.agent_message.delta", itemId=name, delta=text)


def completes(text: str, name: str) -> ObservedSignal:
    return said("item/completed", "item.completed", item={"type": "agentMessage", "id": name, "text": text})


ASKS = said(
    "item/fileChange/requestApproval", "request.item.file_change.request_approval", 0, itemId="f1", threadId=T, turnId=U
)
BEFORE = (OPENED, BEGAN, begins("i0"), completes("all of it", "i0"), begins("i1"), piece("half"), ASKS)


def shown(entries: Sequence[TranscriptEntry]) -> dict[str, tuple[str, str]]:
    return {one.message_id: (one.status.value, one.content) for one in entries}


async def until_over(bus: lifebus.Bus, many: int = 4) -> dict[str, tuple[str, str]]:
    """The transcript once nothing of it streams any more."""
    entries = await until_read(
        lambda: bus.transcripts.entries(T),
        lambda found: len(found) >= many and all(one.status.is_terminal for one in found),
    )
    return shown(entries)


@pytest.mark.parametrize(
    ("end", "status", "word"),
    [(ObservedExit(signal=9), "error", "signal 9"), (ObservedExit(exit_code=0), "canceled", "exit_code 0")],
)
async def test_what_a_dead_app_server_left_open_ends_and_says_why(end: ObservedExit, status: str, word: str) -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        await Observer(bus).observe(*BEFORE, end)
        found = await until_over(bus)
        assert found["i0"] == ("complete", "all of it")
        assert found["i1"] == (status, "half")
        assert found["approval::f1::0"][0] == "canceled"
        assert found["session-end::u1"][0] == status
        assert word in found["session-end::u1"][1]
        followed = bus.signals(adapter="lifebus", thread=f"transcript/{T}", since="start", until_head=True)
        told = [item.envelope["payload"]["entry"] async for item in followed]
        newest = {one["messageId"]: (one["status"], one["content"]) for one in told}
        assert newest == found


async def test_it_ends_also_where_the_broker_stopped_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with short_directory() as directory:
        settings = settings_in(directory)
        with monkeypatch.context() as patch:
            patch.setattr(SessionEndings, "run", lambda _: anyio.sleep_forever())
            async with running_whole(settings) as daemon, connected(daemon) as bus:
                await Observer(bus).observe(*BEFORE, ObservedExit(signal=9))
                left = await until_read(lambda: bus.transcripts.entries(T), lambda found: len(found) == 3)
                assert shown(left)["i1"] == ("streaming", "half")
        async with running_whole(settings) as daemon, connected(daemon) as bus:
            assert (await until_over(bus))["i1"] == ("error", "half")


async def test_what_was_said_before_the_end_and_comes_late_is_taken_in() -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        observer = Observer(bus)
        await observer.observe(*BEFORE, ObservedExit(signal=9))
        await until_over(bus)
        await observer.observe(piece(" and half"), begins("i2"), piece("more", "i2"))
        found = await until_over(bus, 5)
        assert found["i1"] == ("error", "half and half")
        assert found["i2"] == ("error", "more")
        await observer.observe(completes("half and half.", "i1"), piece("again"))
        whole = await until_read(lambda: bus.transcripts.entries(T), lambda found: shown(found)["i1"][0] == "complete")
        assert shown(whole)["i1"] == ("complete", "half and half.")


async def test_a_session_that_goes_on_stays_open() -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        observer = Observer(bus)
        await observer.observe(*BEFORE, ObservedExit(signal=9))
        await until_over(bus)
        resumed = ObservedFact(fact=OPENED.fact | {"how": "resumed", "method": "thread/resume"})
        await Observer(bus, "o2").observe(resumed, begins("i3"), piece("on", "i3"))
        await until_read(lambda: bus.transcripts.entries(T), lambda found: shown(found).get("i3", ("", ""))[1] == "on")
        await sessions_of(daemon).transcripts.endings.close_ended()
        assert shown(await bus.transcripts.entries(T))["i3"] == ("streaming", "on")


async def end_sessions(bus: lifebus.Bus, name: str, many: int) -> None:
    for number in range(many):
        for event in ("session.started", "session.ended"):
            await bus.emit(lifebus.make_request(event, "codex", session=f"{name}{number}"))


async def notes_of(daemon: Daemon) -> int:
    """How often it was written down up to which receipt the ends were looked at."""
    return sum(one.head for one in await daemon.bus.ledger.journal.streams(endings.STREAM))


async def test_without_a_transcript_the_ends_of_sessions_cost_nothing_and_with_one_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    on_commit = SessionEndings._on_commit

    def counted(self: SessionEndings, stored: Sequence[StoredReceipt]) -> None:
        nonlocal looks
        looks += 1
        on_commit(self, stored)

    monkeypatch.setattr(SessionEndings, "_on_commit", counted)
    monkeypatch.setattr(endings, "NOTE_EVERY", 8)
    with short_directory() as directory:
        settings = settings_in(directory)
        async with running_whole(settings) as daemon, connected(daemon) as bus:
            await end_sessions(bus, "a", 5)
            assert (looks, await notes_of(daemon)) == (0, 0)
            await Observer(bus).observe(*BEFORE, ObservedExit(signal=9))
            assert (await until_over(bus))["i1"] == ("error", "half")
            with anyio.fail_after(PATIENCE_S):
                while await notes_of(daemon) != 1:
                    pass
        async with running_whole(settings) as daemon, connected(daemon) as bus:
            await end_sessions(bus, "b", 20)
            with anyio.fail_after(PATIENCE_S):
                while await notes_of(daemon) == 1:
                    pass
            assert looks
            assert await notes_of(daemon) <= 1 + 20 // 8
            assert (await until_over(bus))["i1"] == ("error", "half")


async def test_a_first_transcript_is_closed_also_where_its_broker_stopped_before_it_wrote_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with short_directory() as directory:
        settings = settings_in(directory)
        with monkeypatch.context() as patch:
            patch.setattr(SessionEndings, "run", lambda _: anyio.sleep_forever())
            async with running_whole(settings) as daemon, connected(daemon) as bus:
                await Observer(bus).observe(*BEFORE)
                await until_read(lambda: bus.transcripts.entries(T), lambda found: len(found) == 3)
                await Observer(bus, "o2").observe(ObservedFact(fact={**CLOSED, "session": T}))
                assert await notes_of(daemon) == 0
        async with running_whole(settings) as daemon, connected(daemon) as bus:
            assert (await until_over(bus))["i1"] == ("canceled", "half")
