"""What an item of an app-server's turn is as an entry of a transcript.  Pure."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from lifebus_contract.transcripts import EntryRole, EntryStatus, TranscriptEntry
from lifebus_supervisor.extensions.rules.plain_json import as_list, as_object

MAX_DETAILS: Final = 24_576
"""Most bytes of details; of more, the largest values are left out."""

_ROLES: Final = {
    "userMessage": EntryRole.USER,
    "contextCompaction": EntryRole.SYSTEM,
    "enteredReviewMode": EntryRole.SYSTEM,
    "exitedReviewMode": EntryRole.SYSTEM,
}
_STATUSES: Final = {
    "failed": EntryStatus.ERROR,
    "declined": EntryStatus.CANCELED,
    "interrupted": EntryStatus.CANCELED,
    "canceled": EntryStatus.CANCELED,
    "cancelled": EntryStatus.CANCELED,
}
_SHOWN: Final = frozenset({"id", "type", "text", "summary", "aggregatedOutput"})
"""What an item has that does not belong to its details: it names the entry, or is its content."""


class ItemText(Struct, frozen=True):
    """What an item says: its content, and its details as JSON, None where it has none."""

    content: str
    details: str | None


def role_of(kind: str) -> EntryRole:
    """Return who speaks in an item of a kind."""
    return _ROLES.get(kind, EntryRole.ASSISTANT)


def final_status(item: dict[str, Any]) -> EntryStatus:
    """Return how a completed item ended; most kinds of items do not say it, and are complete."""
    status = item.get("status")
    return _STATUSES.get(status, EntryStatus.COMPLETE) if isinstance(status, str) else EntryStatus.COMPLETE


def text_of(item: dict[str, Any]) -> ItemText:
    """Return what an item says."""
    match item.get("type"):
        case "userMessage":
            content = _user_content(item.get("content"))
            return ItemText(content, _details({name: item[name] for name in item if name != "content"}))
        case "commandExecution":
            content = command_line(_text(item.get("command"))) + _text(item.get("aggregatedOutput"))
            return ItemText(content, _details({name: item[name] for name in item if name != "commandActions"}))
        case "fileChange":
            changes = _changes(item.get("changes"))
            content = "".join(f"{one.kind} {one.path}\n" for one in changes)
            return ItemText(content, _change_details(_text(item.get("status")), changes))
        case "reasoning":
            parts = _texts(item.get("summary")) or _texts(item.get("content"))
            return ItemText("\n\n".join(parts), None)
        case _:
            return ItemText(_text(item.get("text")), _details(item))


def name_in_turn(name: str, turn: str) -> str:
    """Return the message id of an item whose own id another turn used already."""
    return f"{name[:127]}@{turn[:127]}"


def command_line(command: str) -> str:
    """Return how the content of a command begins, before its output."""
    return f"$ {command}\n"


class _Change(Struct, frozen=True):
    path: str
    kind: str
    diff: str


def _changes(found: Any) -> list[_Change]:
    changes: list[_Change] = []
    for one in map(as_object, as_list(found)):
        if isinstance(one.get("path"), str):
            kind = one.get("kind")
            word = as_object(kind).get("type") if isinstance(kind, dict) else kind
            changes.append(_Change(one["path"], _text(word) or "update", _text(one.get("diff"))))
    return changes


def _change_details(status: str, changes: list[_Change]) -> str:
    """Return changes as JSON; a diff for which there is no room any more is left out, and its size is there."""
    room, shown = MAX_DETAILS, list[dict[str, Any]]()
    for one in changes:
        base: dict[str, Any] = {"path": one.path, "kind": one.kind}
        whole = base | {"diff": one.diff}
        size = len(msgspec.json.encode(whole))
        if size > room:
            whole = base | {"diffBytes": len(one.diff.encode())}
            size = len(msgspec.json.encode(whole))
        if size > room:
            break
        shown.append(whole)
        room -= size
    omitted = {"omitted": len(changes) - len(shown)} if len(shown) < len(changes) else {}
    return msgspec.json.encode({"status": status, "changes": shown, **omitted}).decode()


def _user_content(found: Any) -> str:
    """Return the words of a person; what is no text stands there by its kind."""
    inputs = [as_object(one) for one in as_list(found) if isinstance(one, dict)]
    return "\n".join(
        one["text"] if isinstance(one.get("text"), str) else f"[{_text(one.get('type')) or 'input'}]" for one in inputs
    )


def details_of(entry: TranscriptEntry) -> dict[str, Any]:
    """Return what the details of an entry say as JSON, nothing where they are no object."""
    try:
        return as_object(msgspec.json.decode(entry.details or "{}"))
    except (msgspec.DecodeError, RecursionError):
        return {}


def _details(item: dict[str, Any]) -> str | None:
    """Return the rest of an item as JSON, without what is null, and without the largest values of too many."""
    rest: dict[str, Any] = {
        name: value for name, value in item.items() if name not in _SHOWN and not _is_nothing(value)
    }
    sizes = {name: len(msgspec.json.encode(value)) for name, value in rest.items()}
    while rest and sum(sizes[name] for name in rest) > MAX_DETAILS:
        largest = max(rest, key=sizes.__getitem__)
        rest = {name: value for name, value in rest.items() if name != largest}
    return msgspec.json.encode(rest).decode() if rest else None


def _is_nothing(value: Any) -> bool:
    return value in (None, [], {})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    return [one for one in as_list(value) if isinstance(one, str)]
