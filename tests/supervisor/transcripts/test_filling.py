"""Transcripts filled from the signals of app-servers: recordings, pieces, ends, losses, and restarts anywhere."""

import json
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus.observer.stream import AppServerStream
from lifebus_adapters.app_server.reader import SignalSeen
from lifebus_broker.ledger.factory import open_unkept
from lifebus_contract.transcripts import MAX_ENTRY_BYTES, TranscriptEntry
from lifebus_supervisor.transcripts.rules.filling import APPROVAL, approvals_of
from lifebus_supervisor.transcripts.rules.merging import entry_size
from support.adapters.app_server_recordings import RECORDINGS, chunks_of, feed, notice, read_messages, turn
from support.transcripts.boxes import Box, box_over, entry, transcript_box

T, U = "t1", "u1"


def item(method: str, name: str, kind: str, turn_id: str = U, **fields: Any) -> dict[str, Any]:
    when = {"item/started": "startedAtMs", "item/completed": "completedAtMs"}[method]
    return notice(method, threadId=T, turnId=turn_id, item={"type": kind, "id": name, **fields}, **{when: 5})


def piece(text: str, name: str = "i1", method: str = "item/agentMessage/delta") -> dict[str, Any]:
    return notice(method, threadId=T, turnId=U, itemId=name, delta=text)


def asked(number: int, name: str = "i1") -> dict[str, Any]:
    params = {"threadId": T, "turnId": U, "itemId": name, "startedAtMs": 6, "reason": None}
    return {"method": "item/fileChange/requestApproval", "id": number, "params": params}


def shown(entries: Sequence[TranscriptEntry]) -> list[tuple[str, str, str, str]]:
    return [(one.message_id, one.type, one.content, one.status.value) for one in entries]


START = item("item/started", "i1", "agentMessage", text="")


def expected(recording: Path) -> dict[str, list[tuple[str, str, str, str]]]:
    """What a recording says of completed items, read from its lines without any code of ours.

    Only items whose content is a text of their own; by thread, in the order in which the items began.
    """
    began: dict[str, dict[str, tuple[str, str, str, str]]] = {}
    for line in recording.read_text().splitlines():
        record = json.loads(line)
        message = record["msg"]
        if record["dir"] != "out" or not isinstance(message, dict) or "id" in message:
            continue
        if message.get("method") not in ("item/started", "item/completed"):
            continue
        params, found = message["params"], message["params"]["item"]
        if found["type"] not in ("agentMessage", "userMessage"):
            continue
        text = found["text"] if "text" in found else "\n".join(one["text"] for one in found["content"])
        over = message["method"] == "item/completed"
        of_thread = began.setdefault(params["threadId"], {})
        of_thread[params["turnId"] + found["id"]] = (found["id"], found["type"], text, "complete" if over else "open")
    return {thread: list(items.values()) for thread, items in began.items()}


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
async def test_a_recorded_session_is_a_transcript(recording: Path) -> None:
    async with transcript_box() as box:
        await box.observe(feed(AppServerStream(), chunks_of(recording)))
        await box.filler.fill_all()
        for thread, items in expected(recording).items():
            entries = await box.entries(thread)
            mine = [one for one in shown(entries) if one[1] in ("agentMessage", "userMessage")]
            # An id that an earlier turn used has its turn behind it.
            found = [(one[0].partition("@")[0], *one[1:3]) for one in mine]
            assert [one[:2] for one in found] == [one[:2] for one in items]
            for one, (_, _, text, status) in zip(mine, items, strict=True):
                if status == "complete":
                    assert (one[2], one[3]) == (text, "complete")


async def test_the_file_changes_of_a_recording_and_their_approval_are_entries() -> None:
    (recording,) = [one for one in RECORDINGS if one.stem == "turn_file_change_approval_accept"]
    async with transcript_box() as box:
        await box.observe(feed(AppServerStream(), chunks_of(recording)))
        await box.filler.fill_all()
        (thread,) = expected(recording)
        found = {one.type: one for one in await box.entries(thread)}
        details = json.loads(found["fileChange"].details or "")
        assert [(one["kind"], Path(one["path"]).name) for one in details["changes"]] == [
            ("update", "list.txt"),
            ("add", "note.txt"),
        ]
        assert details["changes"][1]["diff"] == "line one\nline two\n"
        approval = found[APPROVAL]
        # Settled, and still known as what it was: a gate that is recovered finds it.
        assert approval.status == "complete"
        stored = await box.store.read(thread)
        method = "item/fileChange/requestApproval"
        assert [one.entry for one in approvals_of(stored, approval.turn_id, method)] == [approval]


async def test_text_in_pieces_is_one_change_a_round_and_whole_at_the_end() -> None:
    async with transcript_box() as box:
        await box.say(turn("turn/started", T, U), START, piece("a"), piece("b"))
        await box.say(piece("c"))
        await box.say(item("item/completed", "i1", "agentMessage", text="abcd"))
        contents = [(event["payload"]["entry"]["content"], event["payload"]["entry"]["status"]) for event in box.events]
        assert contents == [("ab", "streaming"), ("abc", "streaming"), ("abcd", "complete")]


async def test_output_that_a_completed_command_does_not_repeat_stays() -> None:
    async with transcript_box() as box:
        output = piece("out\n", method="item/commandExecution/outputDelta")
        await box.say(item("item/started", "i1", "commandExecution", command="ls", status="inProgress"), output)
        await box.say(item("item/completed", "i1", "commandExecution", command="ls", status="failed", exitCode=2))
        (one,) = await box.entries()
        assert (one.content, one.status, json.loads(one.details or "")["exitCode"]) == ("$ ls\nout\n", "error", 2)


@pytest.mark.parametrize(
    ("end", "status"), [("completed", "complete"), ("interrupted", "canceled"), ("failed", "error")]
)
async def test_the_end_of_a_turn_closes_what_it_left_open_and_nothing_else(end: str, status: str) -> None:
    async with transcript_box(T) as box:
        await box.store.upsert(T, entry("mine", turn_id=U, status="streaming"))
        await box.say(START, piece("a"), asked(0), item("item/started", "o", "agentMessage", "u2", text=""))
        await box.say(turn("turn/completed", T, U, status=end))
        assert [(one.message_id, one.status) for one in await box.entries()] == [
            ("mine", "streaming"),
            ("i1", status),
            ("approval::i1::0", "canceled"),
            ("o", "streaming"),
        ]


async def test_a_turn_that_begins_closes_what_is_left_of_one_whose_end_nobody_saw() -> None:
    async with transcript_box() as box:
        await box.say(START, piece("a"))
        await box.say(turn("turn/started", T, "u2"))
        assert shown(await box.entries()) == [("i1", "agentMessage", "a", "canceled")]


async def test_an_item_whose_id_an_earlier_turn_used_is_an_entry_of_its_own() -> None:
    async with transcript_box() as box:
        await box.say(item("item/completed", "i1", "agentMessage", text="one"))
        await box.say(item("item/completed", "i1", "agentMessage", "u2", text="two"))
        assert [(one.message_id, one.content) for one in await box.entries()] == [("i1", "one"), ("i1@u2", "two")]


async def test_a_request_that_is_resolved_is_the_one_of_its_number() -> None:
    async with transcript_box() as box:
        await box.say(asked(0), asked(1, "i2"), notice("serverRequest/resolved", threadId=T, requestId=1))
        assert [(one.message_id, one.status) for one in await box.entries()] == [
            ("approval::i1::0", "streaming"),
            ("approval::i2::1", "complete"),
        ]


async def test_a_text_that_grows_beyond_its_bound_is_cut_and_its_size_is_known() -> None:
    async with transcript_box() as box:
        await box.say(START, *[piece("x" * 30_000) for _ in range(4)])
        (one,) = await box.entries()
        assert (one.content_bytes, entry_size(one) <= MAX_ENTRY_BYTES) == (120_000, True)
        assert one.content == "x" * len(one.content)
        assert len(one.content) > 60_000


async def test_pieces_behind_lost_signals_are_left_out_until_the_whole_text_comes() -> None:
    async with transcript_box() as box:
        await box.say(START, piece("a"))
        await box.say(piece("LOST"), fill=False)
        (tip,) = await box.log.threads("codex", T)
        await box.log.drop_through("codex", T, tip.head)
        await box.say(piece("c"))
        assert [one.content for one in await box.entries()] == ["a"]
        assert box.filler.lost == 1
        await box.say(item("item/completed", "i1", "agentMessage", text="aLOSTc"))
        assert [one.content for one in await box.entries()] == ["aLOSTc"]


STRANGE: list[Any] = [
    notice("item/started", threadId=T, turnId=U, item=[]),
    notice("item/started", threadId=T, turnId=U, item={"type": " ", "id": "x"}),
    notice("item/completed", threadId=T, turnId=U, item={"type": "fileChange", "id": "x", "changes": {"a": 1}}),
    notice("item/completed", threadId=T, turnId=U, item={"type": "userMessage", "id": "y", "content": [1, {}]}),
    notice("item/completed", threadId=T, turnId=U, item={"type": "mcp", "id": "z", "big": 2**70}),
    notice("item/agentMessage/delta", threadId=T, turnId=U, itemId="w", delta={}),
    notice("turn/completed", threadId=T, turn={"id": U, "status": 1, "error": "x"}),
    notice("serverRequest/resolved", threadId=T, requestId={}),
    {"method": "item/fileChange/requestApproval", "id": "a\nb", "params": {"threadId": T, "turnId": U}},
]


async def test_what_is_strange_costs_itself_alone() -> None:
    async with transcript_box() as box:
        await box.say(*STRANGE, item("item/completed", "i1", "agentMessage", text="fine"))
        assert ("i1", "agentMessage", "fine", "complete") in shown(await box.entries())
        (tip,) = await box.log.threads("codex", T)
        assert (await box.store.filled(T))["codex"].number == tip.head


async def test_a_deleted_session_is_not_filled_again() -> None:
    async with transcript_box() as box:
        await box.say(START, piece("a"))
        await box.store.delete(T)
        seen = len(box.events)
        await box.say(piece("b"), item("item/completed", "i1", "agentMessage", text="ab"))
        assert (await box.entries(), len(box.events)) == ([], seen)


MESSAGES: list[Any] = [
    turn("turn/started", T, U),
    START,
    *[piece(text) for text in ("one ", "two ", "é", "\U0001f600", " three")],
    item("item/started", "i2", "commandExecution", command="ls"),
    piece("out", "i2", "item/commandExecution/outputDelta"),
    asked(0, "i2"),
    notice("serverRequest/resolved", threadId=T, requestId=0),
    item("item/completed", "i2", "commandExecution", command="ls", aggregatedOutput="out"),
    piece(" four"),
    turn("turn/completed", T, U, status="interrupted"),
]


@given(st.lists(st.sampled_from(["restart", "fill", "wait"]), min_size=len(MESSAGES), max_size=len(MESSAGES)))
async def test_wherever_it_is_restarted_every_piece_is_there_once(steps: list[str]) -> None:
    signals = [one for one in read_messages(*MESSAGES) if isinstance(one, SignalSeen)]
    async with transcript_box() as whole:
        await whole.observe(signals)
        await whole.filler.fill_all()
        wanted = await whole.entries()
    async with aclosing(await open_unkept()) as ledger:
        box = await box_over(ledger.journal)
        heard: list[Any] = []
        for signal, step in zip(signals, steps, strict=True):
            await box.observe([signal])
            if step == "fill":
                await box.filler.fill_all()
            elif step == "restart":
                box = await _restarted(box, heard)
        box = await _restarted(box, heard)
        await box.filler._find_unfilled()
        await box.filler.fill_all()
        heard += box.events
        assert await box.entries() == wanted
        # Whoever follows the events alone has the same transcript.
        followed = {event["payload"]["messageId"]: event["payload"]["entry"]["content"] for event in heard}
        assert followed == {one.message_id: one.content for one in wanted}


async def _restarted(box: Box, heard: list[Any]) -> Box:
    heard += box.events
    again = await box_over(box.journal)
    again._observed = box._observed
    await again.filler._find_unfilled()
    return again
