"""Sessions that an operator ends, and sessions that are forgotten: what is recorded, what is gone, and what stays."""

import json
from pathlib import Path
from typing import Any

import pytest

import lifebus
from lifebus_contract import LifebusError
from lifebus_contract.vocabulary import FLOW_ADAPTER
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_transports.messages.reads import Backfill
from support.integration.following import until
from support.integration.hooking import call_hook
from support.integration.observing import Observer, drain_signals, signal
from support.running import connected, running_bus, settings_in, short_directory
from support.transcripts.boxes import entry

CLAUDE, CODEX = ("claude", "s1"), ("codex", "t1")


async def working(daemon: Daemon) -> None:
    """A session of Claude Code with a turn, a sub-agent in it, and a permission that is waited for."""
    about = {"session_id": "s1", "prompt_id": "p1"}
    await call_hook(daemon, "claude", hook_event_name="SessionStart", session_id="s1", source="startup")
    await call_hook(daemon, "claude", hook_event_name="UserPromptSubmit", prompt="PRIVATE", **about)
    await call_hook(daemon, "claude", hook_event_name="SubagentStart", agent_id="a1", agent_type="explorer", **about)
    await call_hook(daemon, "claude", hook_event_name="PermissionRequest", tool_name="Bash", tool_input={}, **about)


async def recorded(bus: lifebus.Bus, after: int = 0) -> list[dict[str, Any]]:
    return [json.loads(row.receipt) for row in (await bus.read(Backfill(after=after))).rows]


def told(receipts: list[dict[str, Any]], *names: str) -> list[tuple[object, ...]]:
    """The event of each receipt with some of its facts."""
    return [(one["event"], *(one["telemetry_summary"].get(name) for name in names)) for one in receipts]


async def refusal_of(work: Any) -> str | None:
    with pytest.raises(LifebusError) as refused:
        await work
    return refused.value.code


async def test_a_session_ends_after_its_waits_and_its_frames_and_says_who_closed_it() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await working(daemon)
        before = daemon.bus.ledger.head
        receipts = await bus.close_session(CLAUDE)
        found = await recorded(bus, before)
        assert told(found, "waiting", "frame_id", "frame_end", "session_end", "closed_by") == [
            ("frame.ended", None, "a1", "abandoned", None, None),
            ("supervisor.tick", "ended", "p1", None, None, None),
            ("frame.ended", None, "p1", "abandoned", None, None),
            ("session.ended", None, None, None, "closed", bus.client_id),
        ]
        assert [one.receipt_id for one in receipts] == [one["receipt_id"] for one in found]
        assert {one["telemetry_summary"]["evidence"] for one in found if one["event"] != "supervisor.tick"} == {
            "an operator closed it"
        }
        (head,) = await bus.sessions(CLAUDE)
        assert (head.ended, head.open_frames) == (True, ())
        assert await refusal_of(bus.close_session(CLAUDE)) == "session_ended"
        assert daemon.bus.ledger.head == before + len(found)
        assert (await bus.verify()).faults == ()


async def test_whoever_still_works_in_a_closed_session_opens_it_again() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await working(daemon)
        await bus.close_session(CLAUDE)
        before = daemon.bus.ledger.head
        about = {"session_id": "s1", "prompt_id": "p2"}
        await call_hook(daemon, "claude", hook_event_name="UserPromptSubmit", prompt="PRIVATE", **about)
        events = [event for event, resumed in told(await recorded(bus, before), "resumed") if resumed]
        assert events == ["session.starting", "session.started"]
        (head,) = await bus.sessions(CLAUDE)
        assert (head.ended, head.open_frames) == (False, ("p2",))


@pytest.mark.parametrize("backend", ["sqlite", "memory"])
async def test_a_session_of_an_app_is_closed_too(backend: str) -> None:
    async with running_bus(backend=backend) as daemon, connected(daemon) as bus:
        frame = lifebus.FrameContext(frame_id="f1", frame_class="top_level")  # type: ignore[arg-type]  # as users write it
        await bus.emit(lifebus.make_request("session.started", "codex", session="t1"))
        await bus.emit(lifebus.make_request("frame.opened", "codex", session="t1", frame=frame))
        closed = await bus.close_session(("codex-cli", "t1"))
        assert [one.event.value for one in closed] == ["frame.ended", "session.ended"]
        assert await refusal_of(bus.close_session(CODEX)) == "session_ended"


async def test_a_session_is_closed_and_forgotten_by_its_short_name() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await bus.emit(lifebus.make_request("session.started", "codex", session="t1"))
        (head,) = await bus.sessions()
        assert head.name == "codex#1"
        assert await refusal_of(bus.close_session("codex#2")) == "no_session"
        assert [one.event.value for one in await bus.close_session("codex#1")] == ["session.ended"]
        assert len(await bus.forget_session("codex#1")) == 1
        assert await bus.sessions() == []
        assert await bus.forget_session("codex#1") == ()


async def test_what_is_no_open_session_is_refused_and_nothing_is_recorded() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        assert await refusal_of(bus.close_session(CODEX)) == "no_session"
        assert await refusal_of(bus.forget_session(CODEX)) == "no_session"
        assert await refusal_of(bus.close_session(("nobody", "t1"))) == "unknown_adapter"
        assert await refusal_of(bus.close_session((FLOW_ADAPTER, "run-1"))) == "session_of_run"
        assert daemon.bus.ledger.head == 0
        await bus.emit(lifebus.make_request("session.started", "codex", session="t1"))
        assert await refusal_of(bus.forget_session(CODEX)) == "session_open"
        assert daemon.bus.ledger.head == 1


async def said_and_done(daemon: Daemon, bus: lifebus.Bus) -> None:
    """A session of Codex with a transcript and signals, which has ended, and another one beside it."""
    for session in ("t1", "t2"):
        await bus.emit(lifebus.make_request("session.started", "codex", session=session))
        await bus.transcripts.upsert(session, entry(content="said"))
    await Observer(bus).observe(signal("t1"), signal("t2"))
    await bus.close_session(CODEX)


async def kept(bus: lifebus.Bus) -> tuple[list[str], list[str]]:
    """Which sessions have a transcript, and which threads have signals."""
    told = await drain_signals(bus.signals(since="start", until_head=True, gaps="yield"))
    threads = {one.thread for one in told if isinstance(one, lifebus.SignalReceived)}
    return [one.session_id for one in await bus.transcripts.list()], sorted(threads)


async def shown(daemon: Daemon, bus: lifebus.Bus, **asked: Any) -> list[str]:
    """The sessions that are listed."""
    assert daemon.follower is not None
    await until(daemon.follower.caught_up.is_set)
    return sorted(one.harness_session_id for one in await bus.sessions(**asked))


async def test_what_was_said_in_a_forgotten_session_is_gone_and_its_receipts_stay() -> None:
    with short_directory() as directory:
        settings = settings_in(directory)
        async with running(settings) as daemon, connected(daemon) as bus:
            await said_and_done(daemon, bus)
            assert await kept(bus) == (["t1", "t2"], ["t1", "t2"])
            before = await recorded(bus)
            (receipt,) = await bus.forget_session(CODEX)
            facts = receipt.telemetry_summary
            assert (facts["forgotten"], facts["forgotten_by"]) == (True, bus.client_id)
            assert await kept(bus) == (["t2"], ["t2"])
            assert (await recorded(bus))[:-1] == before
            assert (await bus.verify()).faults == ()
            assert await bus.forget_session(CODEX) == ()
            assert daemon.bus.ledger.head == len(before) + 1
        assert not any(b"said" in text for text in files(directory, "t1"))
        async with running(settings) as daemon, connected(daemon) as bus:
            assert await shown(daemon, bus) == ["t2"]
            assert await shown(daemon, bus, forgotten=True) == ["t1", "t2"]
            (head,) = await bus.sessions(CODEX)
            assert (head.forgotten, head.ended) == (True, True)
            assert await kept(bus) == (["t2"], ["t2"])


def files(directory: Path, session: str) -> list[bytes]:
    """The lines of all text files of a broker that speak of a session."""
    texts = [path.read_bytes() for path in directory.rglob("*.jsonl") if path.is_file()]
    return [line for text in texts for line in text.splitlines() if session.encode() in line]


async def test_a_forgotten_session_that_goes_on_is_listed_again() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await said_and_done(daemon, bus)
        await bus.forget_session(CODEX)
        assert await shown(daemon, bus) == ["t2"]
        await bus.emit(lifebus.make_request("session.started", "codex", session="t1"))
        assert await shown(daemon, bus) == ["t1", "t2"]
        (head,) = await bus.sessions(CODEX)
        assert head.forgotten is False


async def test_nothing_is_forgotten_where_nothing_is_remembered() -> None:
    async with running_bus(backend="memory") as daemon, connected(daemon) as bus:
        for event in ("session.started", "session.ended"):
            await bus.emit(lifebus.make_request(event, "codex", session="t1"))
        assert await refusal_of(bus.forget_session(CODEX)) == "not_durable"


async def test_the_word_of_an_app_hides_no_session() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        for event in ("session.started", "session.ended", "supervisor.tick"):
            request = lifebus.make_request(event, "codex", session="t1")
            await bus.emit(lifebus.Emission(request=request, telemetry={"forgotten": True}))
        assert await shown(daemon, bus) == ["t1"]
