"""Ends that come late from the spool: OpenCode's process is gone by then, and its word and its database are left."""

from pathlib import Path
from typing import Any

from lifebus_adapters.shared.telemetry import TurnContinued, TurnEnded, TurnStarted
from lifebus_contract import Receipt
from support.supervisor.supervised import SupervisedBus, supervised

S, PROMPT = "ses_1", "msg_1"
FINISHED = TurnEnded(session=S, frame_id=PROMPT, evidence="database:message.finish.stop")


async def late(rig: SupervisedBus, payload: dict[str, Any]) -> list[Receipt]:
    return await rig.hook("opencode", payload, process=None, spooled_at_epoch_s=1)


def event(kind: str) -> dict[str, Any]:
    told = {"id": f"evt_{kind}", "type": kind, "properties": {"sessionID": S, "info": {"id": S}}}
    return {"hook": "event", "input": {"event": told}}


CHAT = {"hook": "chat.message", "input": {"sessionID": S}, "output": {"message": {"id": PROMPT}}}
DISPOSE = {"hook": "dispose", "input": {"sessionID": S}}


def lines(receipts: list[Receipt]) -> list[str]:
    facts = [one.telemetry_summary for one in receipts]
    ends = [fact.get("frame_end") or fact.get("session_end") or "" for fact in facts]
    shown = [f"{one.event.value} {end}".rstrip() for one, end in zip(receipts, ends, strict=True)]
    return [line for line in shown if line.startswith(("session.", "frame."))]


async def test_a_spooled_dispose_ends_the_session_whose_process_nobody_saw(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        for payload in (event("session.created"), CHAT, event("session.idle"), DISPOSE):
            await late(rig, payload)
        await rig.tick(4)
        begun = ["session.starting", "session.started", "frame.opening", "frame.opened"]
        ended = ["frame.ending", "session.ending", "frame.ended completed", "session.ended completed"]
        assert lines(await rig.since(0)) == begun + ended


async def test_the_database_ends_a_turn_whose_session_idle_was_lost(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        for payload in (event("session.created"), CHAT):
            await late(rig, payload)
        rig.news("opencode", S, TurnStarted(session=S, frame_id=PROMPT), FINISHED, source_id="database")
        found = await rig.tick(4)
        assert lines(found) == ["frame.ended completed"]
        # What comes later still opens nothing, and ends nothing again.
        assert lines(await late(rig, event("session.idle"))) == []
        await late(rig, DISPOSE)
        assert lines(await rig.tick(4))[-1:] == ["session.ended completed"]


async def test_an_answer_that_a_compaction_follows_ends_nothing(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("opencode", event("session.created"))
        await rig.hook("opencode", CHAT)
        goes_on = TurnContinued(session=S, frame_id=PROMPT, unannounced=True)
        rig.news("opencode", S, FINISHED, goes_on, source_id="database")
        assert lines(await rig.tick(6)) == []
        await rig.hook("opencode", event("session.idle"))
        assert lines(await rig.tick(2)) == ["frame.ended completed"]
