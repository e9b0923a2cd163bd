"""When an event is synthesised, what it says, and whether it is settled.  Pure."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from lifebus_contract.actions.approvals import approval_id
from lifebus_contract.extensions import (
    ActionResult,
    EmitResult,
    EnqueueResult,
    EventContext,
    FileChangeApprovalRequested,
    SuggestRequestRequested,
    TurnCompleted,
    TurnCompletedContext,
)
from lifebus_contract.jobs import project_of
from lifebus_contract.transcripts import EntryStatus, TranscriptEntry
from lifebus_supervisor.extensions.rules.plain_json import as_list, as_object
from lifebus_supervisor.transcripts.records import StoredEntry
from lifebus_supervisor.transcripts.rules.filling import APPROVAL, approvals_of, read_signal
from lifebus_supervisor.transcripts.rules.items import details_of, name_in_turn

FILE_CHANGE: Final = "item/fileChange/requestApproval"
"""The method by which an app-server asks for the approval of changes to files."""

MAX_TRIES: Final = 3
"""How often an event is dispatched while nothing comes of it."""

PAUSES_S: Final = (0.06, 0.12)
"""Seconds before the second try and before the third."""

_USER_REQUEST: Final = 8_000
_TURN_TRANSCRIPT: Final = 24_000
_SNAPSHOT: Final = 40_000
_DETAILS: Final = 50_000


class DueEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event that may have to be dispatched: whether it has to, the transcript says."""

    kind: Literal["approval", "turn"]
    session_id: str
    turn_id: str
    project_id: str
    item_id: str | None = None
    request_id: int | str | None = None


def due_events(session_id: str, signals: Iterable[bytes]) -> list[DueEvent]:
    """Return what signals of a session may give rise to."""
    found: list[DueEvent] = []
    for signal in signals:
        body = read_signal(signal)
        if body is None or body.turn is None:
            continue
        project = project_of(session_id, body.project_id)
        params = as_object(body.params)
        if body.method == FILE_CHANGE and body.request_id is not None:
            item = params.get("itemId")
            found.append(
                DueEvent(
                    kind="approval",
                    session_id=session_id,
                    turn_id=body.turn,
                    project_id=project,
                    item_id=item if isinstance(item, str) else None,
                    request_id=body.request_id,
                )
            )
        elif body.method == "turn/completed" and body.request_id is None:
            found.append(DueEvent(kind="turn", session_id=session_id, turn_id=body.turn, project_id=project))
    return found


def approval_event(entries: Sequence[StoredEntry], due: DueEvent, *, again: bool) -> FileChangeApprovalRequested | None:
    """Return the event of a request for the approval of changes, None where there is nothing to decide.

    That is so where no change with a difference is known, and where it is asked `again` after a restart and was settled
    meanwhile.
    """
    asked = [one.entry for one in approvals_of(entries, due.turn_id, FILE_CHANGE) if _is_of(one.entry, due)]
    if due.request_id is None or not asked or (again and asked[-1].status is not EntryStatus.STREAMING):
        return None
    item = next((one for one in entries if _is_item(one.entry, due)), None)
    changes = [one for one in _changes_of(item) if one.get("diff") or one.get("diffBytes")]
    if item is None or not changes:
        return None
    details = msgspec.json.format(
        msgspec.json.encode({"status": "pending_approval", "changes": changes}), indent=2
    ).decode()
    upto = [one for one in entries if one.sequence <= item.sequence]
    count = len(changes)
    return FileChangeApprovalRequested(
        context=EventContext(
            project_id=due.project_id,
            source_session_id=due.session_id,
            thread_id=due.session_id,
            turn_id=due.turn_id,
            item_id=due.item_id,
            approval_id=approval_id(due.session_id, due.turn_id, due.request_id),
            anchor_item_id=item.entry.message_id,
            user_request=user_request(upto, due.turn_id),
            turn_transcript=lines_of(upto, due.turn_id)[:_TURN_TRANSCRIPT],
        ),
        summary=f"{count} file change{'' if count == 1 else 's'} to approve",
        details=details[:_DETAILS],
        source_event="approvals_reconcile" if again else "approval_request",
        file_change_status="pending_approval",
    )


def turn_event(entries: Sequence[StoredEntry], due: DueEvent) -> TurnCompleted | None:
    """Return the event of a turn that is over, None where it had no changes of files to approve.

    The requests are those that the transcript has, settled ones too: so the same is known after a restart.
    """
    anchors = {_anchor(one.entry) for one in approvals_of(entries, due.turn_id, FILE_CHANGE)}
    if not anchors:
        return None
    return TurnCompleted(
        context=TurnCompletedContext(
            project_id=due.project_id,
            source_session_id=due.session_id,
            thread_id=due.session_id,
            turn_id=due.turn_id,
            user_request=user_request(entries, due.turn_id),
        ),
        had_file_change_requests=True,
        turn_transcript_snapshot=lines_of(entries, due.turn_id)[:_SNAPSHOT],
        file_change_request_count=len(anchors),
    )


def suggest_event(  # noqa: PLR0917  what is asked for, as it was asked
    entries: Sequence[StoredEntry],
    session_id: str,
    request_key: str,
    project_id: str,
    model: str | None = None,
    effort: str | None = None,
    draft: str | None = None,
) -> SuggestRequestRequested:
    """Return the event by which a next request is to be suggested; it is about the newest turn."""
    turn = entries[-1].entry.turn_id if entries else "suggest-request"
    return SuggestRequestRequested(
        request_key=request_key,
        session_id=session_id,
        project_id=project_id,
        thread_id=session_id,
        turn_id=turn,
        user_request=user_request(entries, turn) or "",
        turn_transcript=lines_of(entries, turn)[:_TURN_TRANSCRIPT],
        model=model,
        effort=effort,
        draft=draft,
    )


def is_settled(results: Sequence[EmitResult]) -> bool:
    """Whether something came of an event, or nobody listens: then it is not dispatched again."""
    return not results or any(
        isinstance(one, EnqueueResult) or (isinstance(one, ActionResult) and one.status.is_reconciled)
        for one in results
    )


def user_request(entries: Sequence[StoredEntry], turn: str) -> str | None:
    """Return what a person asked for in a turn, the last words where there are several."""
    said = [one.entry.content for one in entries if one.entry.turn_id == turn and one.entry.type == "userMessage"]
    return said[-1][:_USER_REQUEST] if said else None


def lines_of(entries: Sequence[StoredEntry], turn: str) -> str:
    """Return a turn as lines of text."""
    shown = [one.entry for one in entries if one.entry.turn_id == turn and one.entry.type != APPROVAL]
    return "\n".join(f"{one.role.value.upper()} [{one.type}]: {one.content}" for one in shown)


def _is_item(entry: TranscriptEntry, due: DueEvent) -> bool:
    names = (due.item_id, name_in_turn(due.item_id or "", due.turn_id))
    return entry.type == "fileChange" and entry.turn_id == due.turn_id and entry.message_id in names


def _is_of(entry: TranscriptEntry, due: DueEvent) -> bool:
    details = details_of(entry)
    return details.get("itemId") == due.item_id and details.get("requestId") == due.request_id


def _anchor(entry: TranscriptEntry) -> str:
    anchor = details_of(entry).get("itemId")
    return anchor if isinstance(anchor, str) else entry.message_id


def _changes_of(item: StoredEntry | None) -> list[dict[str, Any]]:
    changes = {} if item is None else details_of(item.entry)
    return [as_object(one) for one in as_list(changes.get("changes")) if isinstance(one, dict)]
