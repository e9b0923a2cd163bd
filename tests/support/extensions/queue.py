"""A queue that takes every job, for tests of who may queue what."""

import msgspec

from lifebus_contract.jobs import Enqueued, NewJob


class MadeUpQueue:
    """Queues every job under an id of its own; `queued` has them."""

    def __init__(self) -> None:
        self.queued: list[NewJob] = []

    async def enqueue(self, job: NewJob) -> Enqueued:
        self.queued.append(job)
        now = "2026-11-23T12:00:00.000Z"
        nothing = ("sourceSessionId", "dedupeKey", "result", "error", "startedAt", "completedAt", "cancelRequestedAt")
        plain = {
            **dict.fromkeys((*nothing, "nextAttemptAt", "lastAttemptAt")),
            "id": job.job_id or f"j{len(self.queued)}",
            "type": job.type,
            "version": 1,
            "projectId": job.project_id,
            "priority": "interactive",
            "state": "queued",
            "payload": job.payload,
            "attempts": 0,
            "maxAttempts": 2,
            "createdAt": now,
            "runningContext": {},
        }
        return msgspec.convert({"status": "enqueued", "job": plain}, Enqueued)
