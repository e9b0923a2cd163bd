"""Jobs that are turns of workers, and what the app-server was told of them."""

from pathlib import Path
from typing import Any

from lifebus_contract.flows import RetryPause
from lifebus_contract.jobs import NewJob
from support.broker_process import until
from support.integration.steering import lines_of


def instruction(text: str, **more: Any) -> dict[str, Any]:
    """The payload of a worker's turn about the turn `u1` of the client's thread."""
    return {
        "agent": "reviewer",
        "jobKind": "review",
        "projectId": "p1",
        "sourceSessionId": "t1",
        "threadId": "t1",
        "turnId": "u1",
        "instructionText": text,
        **more,
    }


def job(text: str, *, expects: str = "assistant_text", **more: Any) -> NewJob:
    return NewJob(
        type="agent_instruction",
        project_id="p1",
        source_session_id="t1",
        payload=instruction(text, expectResponse=expects, **more),
        pause=RetryPause(first_ms=0, longest_ms=0, jitter_percent=0),
    )


def turns_of(lines: list[dict[str, Any]], thread: str = "t2") -> list[str]:
    """What the server was told to do in a thread, in order."""
    return [one["method"] for one in lines if (one.get("params") or {}).get("threadId") == thread]


async def begun(kept: Path, count: int = 1) -> None:
    """So many turns were begun in the worker's threads."""
    await until(lambda: sum(one.get("method") == "turn/start" for one in lines_of(kept)) >= count + 1)
