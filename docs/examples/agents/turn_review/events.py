"""Has failed turns reviewed, and notes in the transcript where a context was compacted."""

from lifebus.extensions import Event, Receipt, Signal, Tools, on, request_action


@on("app_server.turn.completed", timeout=10)
async def review_failure(event: Event[Signal], tools: Tools) -> object:
    """Queue one review for each turn that failed."""
    turn, thread = event.payload.params["turn"], event.payload.context.thread_id
    if turn["status"] != "failed":
        return None
    tools.log.info("a turn failed", thread=thread, turn=turn["id"])
    return await tools.enqueue_job(
        "command",
        {"argv": ["review-turn", thread, turn["id"]], "cwd": "/"},
        project_id=f"session:{thread}",
        dedupe="single_flight",
        dedupe_key=f"review:{turn['id']}",
    )


@on("lifecycle.context.compacted")
async def note_compaction(event: Event[Receipt]) -> object:
    """Ask for one line in the transcript; the key has it written once, however often this runs."""
    session = event.payload.harness_session_id
    entry = {"messageId": f"note:{event.correlation_id}", "turnId": "none", "role": "system", "type": "note"}
    entry |= {"content": "The context was compacted here.", "status": "complete"}
    payload = {"sessionId": session, "entry": entry}
    return request_action("transcript.upsert", payload, idempotency_key=f"compacted:{event.correlation_id}")
