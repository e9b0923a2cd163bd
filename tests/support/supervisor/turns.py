"""Turns of a Codex session on a supervised bus, and what was recorded of their ends."""

from lifebus_contract import Receipt
from support.supervisor.supervised import SupervisedBus

SESSION = "s1"
START = {"hook_event_name": "SessionStart", "session_id": SESSION, "source": "startup"}
END = {"hook_event_name": "SessionEnd", "session_id": SESSION, "reason": "other"}


def prompt(turn: str) -> dict[str, str]:
    return {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "turn_id": turn, "prompt_id": turn}


def stop(turn: str) -> dict[str, str]:
    return {"hook_event_name": "Stop", "session_id": SESSION, "turn_id": turn, "prompt_id": turn}


def child(turn: str, agent: str) -> dict[str, str]:
    return prompt(turn) | {"hook_event_name": "SubagentStart", "agent_id": agent, "agent_type": "helper"}


async def running_turn(rig: SupervisedBus, adapter_id: str = "codex") -> None:
    await rig.hook(adapter_id, START)
    await rig.hook(adapter_id, prompt("t1"))
    await rig.tick()


def endings(receipts: list[Receipt]) -> list[tuple[object, ...]]:
    return [
        (
            receipt.event.value,
            receipt.telemetry_summary.get("frame_id"),
            receipt.telemetry_summary.get("frame_end") or receipt.telemetry_summary.get("session_end"),
        )
        for receipt in receipts
        if receipt.event in {"frame.ended", "session.ended"}
    ]
