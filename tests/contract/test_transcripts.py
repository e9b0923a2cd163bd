"""The wire types of transcripts: names in camel case, what is refused, what is trimmed."""

import json
from typing import Any

import msgspec
import pytest

from lifebus_contract.codes import CODES
from lifebus_contract.transcripts import (
    HTTP_STATUSES,
    EntryRole,
    EntryStatus,
    TranscriptDelta,
    TranscriptEntry,
    TranscriptUpdated,
)

BODY: dict[str, Any] = {
    "messageId": "m1",
    "turnId": "t1",
    "role": "system",
    "type": "note",
    "content": "",
    "status": "complete",
}


def read(body: dict[str, Any]) -> TranscriptEntry:
    return msgspec.json.decode(json.dumps(body), type=TranscriptEntry)


def test_an_entry_is_read_and_written_in_camel_case() -> None:
    body = BODY | {"details": "{}", "startedAt": 1, "completedAt": 2}
    entry = read(body)
    assert (entry.message_id, entry.role, entry.status) == ("m1", EntryRole.SYSTEM, EntryStatus.COMPLETE)
    assert json.loads(msgspec.json.encode(entry)) == body


@pytest.mark.parametrize("name", sorted(BODY))
def test_every_key_of_the_specification_is_required(name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=name):
        read({key: value for key, value in BODY.items() if key != name})


@pytest.mark.parametrize(
    "change",
    [
        {"messageId": ""},
        {"turnId": "   "},
        {"type": "a\nb"},
        {"role": "tool"},
        {"status": "done"},
        {"content": None},
        {"details": {}},
        {"startedAt": -1},
        {"completedAt": 1.5},
        {"colour": "blue"},
    ],
    ids=str,
)
def test_what_is_no_entry_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(BODY | change)


def test_names_are_trimmed() -> None:
    entry = read(BODY | {"messageId": " m1 ", "type": "note "})
    assert (entry.message_id, entry.type) == ("m1", "note")


def test_the_event_of_a_change_is_the_specification_s() -> None:
    entry = read(BODY)
    payload = TranscriptDelta(thread_id="s1", turn_id="t1", message_id="m1", type="note", entry=entry)
    sent = json.loads(msgspec.json.encode(TranscriptUpdated(thread_id="s1", payload=payload)))
    assert sent == {
        "type": "transcript_updated",
        "threadId": "s1",
        "payload": {"threadId": "s1", "turnId": "t1", "messageId": "m1", "type": "note", "entry": BODY},
    }


def test_only_streaming_is_not_terminal() -> None:
    assert [status for status in EntryStatus if not status.is_terminal] == [EntryStatus.STREAMING]


def test_the_refusals_with_an_answer_of_their_own_are_codes() -> None:
    assert {code: HTTP_STATUSES[code] for code in HTTP_STATUSES if code in CODES} == {
        "session_deleted": 410,
        "no_session": 404,
        "no_suggested_request": 404,
    }
