"""What the signals of an app-server make of a transcript.  Pure.

Items are entries under their own id, and requests for an approval entries of the type `APPROVAL`.  Text that comes in
pieces is put behind what is there; the completed item has all of it.  What a turn leaves open is closed with it.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lifebus_adapters.app_server.context import identifier
from lifebus_contract.transcripts import EntryRole, EntryStatus, TranscriptEntry
from lifebus_supervisor.extensions.rules.plain_json import as_object
from lifebus_supervisor.transcripts.records import StoredEntry
from lifebus_supervisor.transcripts.rules.items import (
    MAX_DETAILS,
    command_line,
    details_of,
    final_status,
    name_in_turn,
    role_of,
    text_of,
)
from lifebus_supervisor.transcripts.rules.merging import bounded, merged
from lifebus_supervisor.transcripts.state import TranscriptState

APPROVAL: Final = "approval.request"
"""The type of the entry that a request for an approval is; its details name the `method`, also once it is settled."""

SESSION_END: Final = "session.ended"
"""The type of the entry that says why the rest of a turn is missing: its session ended in the middle of it."""

MAX_CLOSED: Final = 64
"""Most entries that one signal closes; what is left is closed by the next turn."""

_PIECES: Final = {
    "item/agentMessage/delta": ("agentMessage", "delta"),
    "item/plan/delta": ("plan", "delta"),
    "item/reasoning/summaryTextDelta": ("reasoning", "delta"),
    "item/commandExecution/outputDelta": ("commandExecution", "delta"),
}
"""The methods that bring text in pieces: which kind of item they are about, and where the text stands."""

_APPROVALS: Final = {
    "item/commandExecution/requestApproval": "approval of a command",
    "item/fileChange/requestApproval": "approval of changes to files",
    "item/permissions/requestApproval": "approval of permissions",
    "execCommandApproval": "approval of a command",
    "applyPatchApproval": "approval of changes to files",
}
_TURN_ENDS: Final = {"interrupted": EntryStatus.CANCELED, "failed": EntryStatus.ERROR}


class SignalBody(Struct, frozen=True, rename="camel"):
    """What is read of a signal's envelope."""

    method: str
    context: dict[str, str | None]
    params: Any = None
    session: dict[str, Any] | None = None
    request_id: int | str | None = None

    @property
    def turn(self) -> str | None:
        """The turn that it is about."""
        return self.context.get("turnId")

    @property
    def project_id(self) -> str | None:
        """The project of its session."""
        return None if self.session is None else self.session.get("projectId")


def read_signal(signal: bytes) -> SignalBody | None:
    """Return what a signal says, None where it is none of an app-server."""
    try:
        return _BODIES.decode(signal)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def filled(state: TranscriptState, signals: Sequence[bytes], *, torn: bool = False) -> tuple[StoredEntry, ...]:
    """Return the entries that signals change, each as it is after all of them; with `torn`, some were lost before.

    Reading signals again that are taken in already changes nothing but text that comes in pieces.
    """
    filling = _Filling(state)
    if torn:
        filling.tear()
    for one in signals:
        body = read_signal(one)
        if body is not None:
            # What no entry can be made of costs itself alone: names that cannot be printed, numbers beyond JSON's.
            with suppress(ValueError, OverflowError, RecursionError):
                filling.read(body)
    return filling.changes()


class _Filling:
    """Entries while signals are read into them."""

    def __init__(self, state: TranscriptState) -> None:
        self._state = state
        self._changed: dict[str, StoredEntry] = {}

    def changes(self) -> tuple[StoredEntry, ...]:
        """Return what is not as it was."""
        return tuple(
            one for name, one in self._changed.items() if (known := self._state.get(name)) is None or known != one
        )

    def tear(self) -> None:
        """Note that signals are missing: what is open takes no more pieces."""
        for one in self._open():
            self._changed[one.entry.message_id] = replace(one, torn=True)

    def read(self, body: SignalBody) -> None:
        """Take in a signal."""
        params = as_object(body.params)
        if body.request_id is not None:
            if body.method in _APPROVALS:
                self._asked(body, params, body.request_id)
        elif body.method in _PIECES:
            self._piece(body, params)
        elif (step := _STEPS.get(body.method)) is not None:
            step(self, body, params)

    def item(self, body: SignalBody, params: dict[str, Any]) -> None:
        """Take in an item that began or is complete."""
        item = as_object(params.get("item"))
        if body.turn is None:
            return
        kind, name = identifier(item.get("type")), identifier(item.get("id"))
        if kind is None or name is None:
            return
        over = body.method == "item/completed"
        said = text_of(item)
        message_id = self._message_id(name, body.turn)
        known, cut = self._get(message_id), None
        if known is not None and known.entry.content.startswith(said.content):
            # Some kinds of items do not repeat what came in pieces.
            said, cut = replace(said, content=known.entry.content), known.entry.content_bytes
        self._merge(
            TranscriptEntry(
                message_id=message_id,
                turn_id=body.turn,
                role=role_of(kind),
                type=kind,
                content=said.content,
                status=final_status(item) if over else EntryStatus.STREAMING,
                details=said.details,
                started_at=_time(params.get("startedAtMs")),
                completed_at=_time(params.get("completedAtMs")),
                content_bytes=cut,
            )
        )
        if over and (now := self._changed[message_id]).cut_off:
            # It has all of its text now.
            self._changed[message_id] = replace(now, cut_off=False)

    def turn_ended(self, body: SignalBody, params: dict[str, Any]) -> None:
        """Close what a turn left open; a turn that failed says why."""
        if body.turn is None:
            return
        turn = as_object(params.get("turn"))
        status, error = _TURN_ENDS.get(str(turn.get("status")), EntryStatus.COMPLETE), as_object(turn.get("error"))
        if isinstance(error.get("message"), str):
            self._merge(_failure(body.turn, error))
        self._close(status, lambda one: one.entry.turn_id == body.turn)

    def turn_began(self, body: SignalBody, _: dict[str, Any]) -> None:
        """Close what is left of turns whose end was not seen."""
        if body.turn is not None:
            self._close(EntryStatus.CANCELED, lambda one: one.entry.turn_id != body.turn)

    def session_ended(self, status: EntryStatus, reason: str) -> None:
        """Close what a session left open, and say why in each turn that had something open."""
        left = self._open()
        self._close(status, lambda _: True)
        for one in left[:MAX_CLOSED]:
            name = one.entry.message_id
            self._changed[name] = replace(self._changed[name], cut_off=True)
        for turn in dict.fromkeys(one.entry.turn_id for one in left[:MAX_CLOSED]):
            self._merge(_end_of_session(turn, status, reason))

    def resolved(self, _: SignalBody, params: dict[str, Any]) -> None:
        """Settle the request for an approval that the server waits for no longer."""
        number = params.get("requestId")
        for one in self._open():
            if one.entry.type == APPROVAL and details_of(one.entry).get("requestId") == number:
                self._merge(replace(one.entry, status=EntryStatus.COMPLETE))

    def _asked(self, body: SignalBody, params: dict[str, Any], number: int | str) -> None:
        """Take in that somebody is asked for an approval."""
        item = identifier(params.get("itemId")) or identifier(params.get("callId"))
        turn = body.turn
        if turn is None:
            return
        # The server numbers its requests from 0 in each process: the item and the turn belong to the name.
        name = f"approval::{item or ''}::{number}"
        details = {"method": body.method, "requestId": number, "itemId": item, "anchorItemId": item}
        reason, command = params.get("reason"), params.get("command")
        words = [_APPROVALS[body.method], *(one for one in (command, reason) if isinstance(one, str))]
        self._merge(
            TranscriptEntry(
                message_id=self._message_id(name[:256], turn),
                turn_id=turn,
                role=EntryRole.SYSTEM,
                type=APPROVAL,
                content=": ".join(words),
                status=EntryStatus.STREAMING,
                details=msgspec.json.encode({key: one for key, one in details.items() if one is not None}).decode(),
                started_at=_time(params.get("startedAtMs")),
            )
        )

    def _piece(self, body: SignalBody, params: dict[str, Any]) -> None:
        """Put a piece of text behind what an entry has."""
        kind, key = _PIECES[body.method]
        name, text = identifier(params.get("itemId")), params.get(key)
        if name is None or body.turn is None or not isinstance(text, str):
            return
        message_id = self._message_id(name, body.turn)
        known = self._get(message_id)
        if known is None:
            # Its beginning was not seen: what comes is not the beginning of its text.
            content = command_line("") if kind == "commandExecution" else ""
            entry = TranscriptEntry(
                message_id=message_id,
                turn_id=body.turn,
                role=role_of(kind),
                type=kind,
                content=content,
                status=EntryStatus.STREAMING,
            )
            known = replace(self._place(entry), torn=True)
            self._changed[message_id] = known
        if known.torn or (known.entry.status.is_terminal and not known.cut_off):
            return
        entry = known.entry
        if entry.content_bytes is not None:
            # Nothing goes behind a content that is cut already.
            size = entry.content_bytes + len(text.encode())
            self._changed[message_id] = replace(known, entry=bounded(replace(entry, content_bytes=size)))
            return
        self._changed[message_id] = replace(known, entry=bounded(replace(entry, content=entry.content + text)))

    def _merge(self, entry: TranscriptEntry) -> None:
        known = self._get(entry.message_id)
        now = merged(None if known is None else known.entry, entry)
        if len(now.details or "") > MAX_DETAILS:
            # Somebody else's, put into an item's entry: what the server says has to have room.
            now = replace(now, details=entry.details)
        now = bounded(now)
        self._changed[entry.message_id] = self._place(now) if known is None else replace(known, entry=now)

    def _close(self, status: EntryStatus, belongs: Callable[[StoredEntry], bool]) -> None:
        for _, one in zip(range(MAX_CLOSED), [one for one in self._open() if belongs(one)], strict=False):
            # Nobody answers a request of a turn that is over.
            end = EntryStatus.CANCELED if one.entry.type == APPROVAL else status
            self._merge(replace(one.entry, status=end))

    def _open(self) -> list[StoredEntry]:
        """Return the entries of app-servers that are not over, in their order."""
        known = {one.entry.message_id: one for one in self._state} | self._changed
        return [one for one in known.values() if one.filled and not one.entry.status.is_terminal]

    def _message_id(self, name: str, turn: str) -> str:
        """Return the message id of an item; one that another turn used already has the turn in it."""
        known = self._get(name)
        return name if known is None or known.entry.turn_id == turn else name_in_turn(name, turn)

    def _get(self, message_id: str) -> StoredEntry | None:
        return self._changed.get(message_id) or self._state.get(message_id)

    def _place(self, entry: TranscriptEntry) -> StoredEntry:
        new = sum(one.sequence > self._state.last for one in self._changed.values())
        return self._state.place(entry, filled=True, behind=new)


_STEPS: Final = {
    "item/started": _Filling.item,
    "item/completed": _Filling.item,
    "turn/started": _Filling.turn_began,
    "turn/completed": _Filling.turn_ended,
    "serverRequest/resolved": _Filling.resolved,
}
_BODIES: Final = msgspec.json.Decoder(SignalBody)


def session_ended(state: TranscriptState, status: EntryStatus, reason: str) -> tuple[StoredEntry, ...]:
    """Return the entries that the end of a session changes, `MAX_CLOSED` of those that were open at most."""
    filling = _Filling(state)
    filling.session_ended(status, reason)
    return filling.changes()


def approvals_of(entries: Iterable[StoredEntry], turn: str, method: str) -> list[StoredEntry]:
    """Return the requests for an approval by a method that a turn had, settled ones too."""
    return [
        one
        for one in entries
        if one.entry.type == APPROVAL and one.entry.turn_id == turn and details_of(one.entry).get("method") == method
    ]


def _failure(turn: str, error: dict[str, Any]) -> TranscriptEntry:
    return TranscriptEntry(
        message_id=f"turn-error::{turn[:240]}",
        turn_id=turn,
        role=EntryRole.SYSTEM,
        type="error",
        content=error["message"],
        status=EntryStatus.ERROR,
    )


def _end_of_session(turn: str, status: EntryStatus, reason: str) -> TranscriptEntry:
    return TranscriptEntry(
        message_id=f"session-end::{turn[:240]}",
        turn_id=turn,
        role=EntryRole.SYSTEM,
        type=SESSION_END,
        content=reason,
        status=status,
    )


def _time(found: Any) -> int | None:
    return found if type(found) is int and 0 <= found < 2**53 else None
