"""Recorded sessions as traces: a file of each was read by somebody, and says what a backend shows.

`LIFEBUS_WRITE_TRACES=1` writes the files anew.
"""

import os
from pathlib import Path

import pytest

from lifebus_broker.routing.clients import CallbackClient, FunctionInvoker
from lifebus_contract import CallbackResponse, DispatchEnvelope, LifecycleEvent, Receipt
from lifebus_supervisor.traces.session_spans import SessionSpans
from support.adapters.calls import CAPTURE_FILES
from support.supervisor import replaying
from support.supervisor.supervised import supervised
from support.trace_text import spans_of, trace_text

EXPECTED = Path(__file__).parent / "expected"
RECORDINGS = {
    f"{path.parent.parent.name}-{path.parent.name}": path
    for path in CAPTURE_FILES
    if path.parent.name
    in {
        "interactive_permission_interrupt_clear_compact",
        "print_subagent_error_fork",
        "print_four_runs_manual_compact",
        "exec_subagent_error_fork",
        "exec_three_turns_auto_compaction",
    }
}


async def content(_: DispatchEnvelope) -> CallbackResponse:
    return CallbackResponse.ok()


async def played(recording: Path, place: Path) -> list[Receipt]:
    """Return the receipts of a recording, with a client that is asked about turns."""
    async with supervised(place) as rig:
        events = frozenset({LifecycleEvent.FRAME_OPENING, LifecycleEvent.SESSION_STARTING})
        rig.bus.clients.add(CallbackClient(client_id="notes", events=events, invoker=FunctionInvoker(content)))
        home = place / "home"
        home.mkdir()
        return await replaying.play(rig, recording, home)


@pytest.mark.parametrize("name", sorted(RECORDINGS))
async def test_a_recorded_session_becomes_the_traces_that_were_reviewed(name: str, tmp_path: Path) -> None:
    receipts = await played(RECORDINGS[name], tmp_path)
    text = trace_text(spans_of(receipts))
    file = EXPECTED / f"{name}.txt"
    if os.environ.get("LIFEBUS_WRITE_TRACES"):
        file.write_text(text)
    assert file.read_text() == text
    # Whoever begins in the middle, and reads what was before, has the same spans from there on.
    middle = len(receipts) // 2
    first, whole = spans_of(receipts[:middle]), spans_of(receipts)
    again = SessionSpans("-", "-")
    assert again.last_position == 0
    assert whole[: len(first)] == first


def test_the_recordings_are_those_of_claude_and_codex() -> None:
    assert len(RECORDINGS) == 5
