"""The entries of a transcript that end when a job does.  Pure."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lifebus_contract.jobs import JobState, SupplementalTarget
from lifebus_contract.transcripts import EntryRole, EntryStatus, TranscriptEntry
from lifebus_supervisor.queue.records import JobStanding

_STATUSES: Final = {
    JobState.COMPLETED: EntryStatus.COMPLETE,
    JobState.FAILED: EntryStatus.ERROR,
    JobState.CANCELED: EntryStatus.CANCELED,
}
_TARGETS: Final = tuple[SupplementalTarget, ...]


def targets_of(payload: Mapping[str, Any]) -> tuple[SupplementalTarget, ...]:
    """Return the supplemental targets of a job's payload, each message once."""
    try:
        found = msgspec.convert(payload.get("supplementalTargets", ()), _TARGETS)
    except msgspec.ValidationError:
        return ()
    return tuple({one.message_id: one for one in reversed(found) if one.message_id.strip()}.values())[::-1]


def session_of(job: JobStanding) -> str | None:
    """Return the session in whose transcript the targets of a job are."""
    found = job.definition.source_session_id or job.payload.get("sourceSessionId")
    return found if isinstance(found, str) and found else None


def placeholder(
    job: JobStanding, target: SupplementalTarget, before: TranscriptEntry | None, now_ms: int
) -> TranscriptEntry | None:
    """Return the entry that stands there while the job is done; None where there is a good one."""
    if before is not None and before.status in (EntryStatus.STREAMING, EntryStatus.COMPLETE):
        return None
    text = next(iter(target.placeholder_texts), f"{target.type}: queued")
    return _entry(job, target, EntryStatus.STREAMING, text, started_at=now_ms)


def ended(
    job: JobStanding, target: SupplementalTarget, before: TranscriptEntry | None, now_ms: int
) -> TranscriptEntry | None:
    """Return the entry after the end of the job; None where what is there stays.

    What a worker wrote itself stays and only ends; an entry that is complete is not made an error afterwards.
    """
    status = _STATUSES[job.state]
    if before is not None and (before.status is EntryStatus.COMPLETE or before.status is status):
        return None
    content = "" if before is None else before.content
    if _is_placeholder(content, target):
        content = _fallback(job, target, status)
    return _entry(job, target, status, content, completed_at=now_ms)


def _is_placeholder(content: str, target: SupplementalTarget) -> bool:
    plain = content.strip().lower()
    known = {text.strip().lower() for text in (*target.placeholder_texts, f"{target.type}: queued")}
    return not plain or plain in known


def _fallback(job: JobStanding, target: SupplementalTarget, status: EntryStatus) -> str:
    if status is EntryStatus.COMPLETE:
        return target.complete_fallback or f"{target.type}: complete"
    if status is EntryStatus.CANCELED:
        return target.canceled_fallback or f"{target.type}: canceled"
    return f"{target.error_fallback or f'{target.type}: failed'} ({job.error})"


def _entry(
    job: JobStanding, target: SupplementalTarget, status: EntryStatus, content: str, **times: int
) -> TranscriptEntry:
    anchors = {key: job.payload[key] for key in ("anchorItemId", "approvalId") if key in job.payload}
    turn_id = job.payload.get("turnId")
    return TranscriptEntry(
        message_id=target.message_id,
        turn_id=turn_id if isinstance(turn_id, str) and turn_id.strip() else job.job_id,
        role=EntryRole.SYSTEM,
        type=target.type,
        content=content,
        status=status,
        details=msgspec.json.encode(anchors).decode() if anchors else None,
        **times,
    )
