"""What a job is when it is queued: the caller's words, and where he says nothing, those of its type.  Pure."""

from typing import Any

import msgspec

from lifebus_contract import InvalidRequest
from lifebus_contract.fields import Metadata
from lifebus_contract.jobs import MAX_DEDUPE_KEY, MAX_PAYLOAD_BYTES, Dedupe, NewJob
from lifebus_supervisor.configuration.queue_settings import QueueSettings
from lifebus_supervisor.queue.ports import JobType
from lifebus_supervisor.queue.records import JobDefinition
from lifebus_supervisor.queue.rules.duplicates import digest_of


def define(new: NewJob, kind: JobType, settings: QueueSettings, job_id: str) -> JobDefinition:
    """Return the whole definition of a job.

    Raises:
        InvalidRequest: it wants duplicates found and has no key, nor one by its type.
    """
    dedupe = new.dedupe or kind.dedupe
    key = new.dedupe_key or kind.dedupe_key(new)
    if new.dedupe not in (None, Dedupe.NONE) and key is None:
        raise InvalidRequest(f"`{dedupe.value}` needs a `dedupeKey`", code="against_contract", field="dedupeKey")
    return JobDefinition(
        job_id=job_id,
        type=kind.name,
        version=kind.version,
        project_id=new.project_id,
        digest=digest_of(new),
        source_session_id=new.source_session_id,
        priority=new.priority or kind.priority,
        dedupe=dedupe if key is not None else Dedupe.NONE,
        dedupe_key=None if key is None else key[:MAX_DEDUPE_KEY],
        max_attempts=new.max_attempts or kind.max_attempts or settings.max_attempts,
        time_limit_ms=new.time_limit_ms or kind.time_limit_ms or settings.time_limit_ms,
        cancel_grace_ms=kind.cancel_grace_ms if new.cancel_grace_ms is None else new.cancel_grace_ms,
        pause=new.pause or kind.pause,
        not_before_ms=new.not_before_ms,
    )


def checked_payload(kind: JobType, payload: Metadata) -> Metadata:
    """Return a payload that jobs of the type can have.

    Raises:
        InvalidRequest: ``too_large``, ``invalid_payload``.
    """
    try:
        size = len(msgspec.json.encode(payload))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRequest(f"the payload is not JSON: {error}", code="invalid_payload", field="payload") from None
    if size > MAX_PAYLOAD_BYTES:
        text = f"the payload has {size} bytes, at most {MAX_PAYLOAD_BYTES} are taken"
        raise InvalidRequest(text, code="too_large", field="payload")
    if (fault := kind.check(payload)) is not None:
        raise InvalidRequest(f"the payload is none of `{kind.name}`: {fault}", code="invalid_payload", field="payload")
    return payload


def merged_payload(kind: JobType, before: Metadata, new: Metadata) -> dict[str, Any]:
    """Return the payload of a job whose duplicate came: key by key the newer value.

    Raises:
        InvalidRequest: the two together are none of the type, or too large.
    """
    return checked_payload(kind, {**before, **new})
