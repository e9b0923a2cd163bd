"""The line server: one request a connection as a line of JSON, from honest peers and from others."""

import json
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from lifebus_contract import BrokerBusy, StateConflict
from lifebus_contract.fields import Document
from lifebus_transports.framing.json_lines import MAX_LINE
from lifebus_transports.hooks import line_server
from lifebus_transports.hooks.line_server import CallVerb, LineServerLimits, serve_lines
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.emissions import EmitAnswer, EmitResult
from lifebus_transports.messages.reads import SessionsQuery
from support.patience import PATIENCE_S
from support.transports import hook_server_box

PATIENT = LineServerLimits(read_s=PATIENCE_S, send_s=PATIENCE_S)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines.sock"


@asynccontextmanager
async def open_server(path: Path, call: CallVerb, limits: LineServerLimits = PATIENT) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        await tasks.start(partial(serve_lines, path, call, limits=limits))
        yield
        tasks.cancel_scope.cancel()


talk = partial(hook_server_box.talk, finish=False)
"""Returns all that comes back for some bytes."""


async def ask(path: Path, verb: str, body: object = None, **more: object) -> Any:
    answer = await talk(path, json.dumps({"id": 7, "verb": verb, "body": body or {}, **more}).encode() + b"\n")
    assert answer.endswith(b"\n")
    return json.loads(answer)


async def refused(path: Path, data: bytes) -> tuple[object, str]:
    """Return id and code of a refusal."""
    answer = json.loads(await talk(path, data))
    return answer["id"], answer["refused"]["code"]


async def pong(verb: str, body: Document) -> Nothing:
    assert verb == "ping"
    assert body == Nothing()
    return Nothing()


async def test_a_request_is_decoded_and_its_answer_comes_back_on_one_line(path: Path) -> None:
    seen: list[tuple[str, Document]] = []

    async def call(verb: str, body: Document) -> EmitAnswer:
        seen.append((verb, body))
        return EmitAnswer(results=(EmitResult(receipts=(b'{"receipt_id":"lfr_1"}',), positions=(3,)),))

    async with open_server(path, call):
        assert stat.S_IMODE((await anyio.Path(path).stat()).st_mode) == 0o600
        found = await ask(path, "sessions", {"session": ["codex", "s"]})
    assert seen == [("sessions", SessionsQuery(session=("codex", "s")))]
    # A receipt is JSON of its own, and stands there as it is.
    assert found == {"id": 7, "ok": {"results": [{"receipts": [{"receipt_id": "lfr_1"}], "positions": [3]}]}}


async def test_a_request_may_come_in_pieces_and_what_follows_it_is_not_read(path: Path) -> None:
    async with open_server(path, pong), await anyio.connect_unix(path) as stream:
        for piece in (b'{"id":1,"verb":', b'"ping"}', b"\nnonsense\n"):
            await stream.send(piece)
        with anyio.fail_after(PATIENCE_S):
            assert json.loads(await stream.receive()) == {"id": 1, "ok": {}}
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\n", (None, "malformed")),
        (b"\xff\xfe\n", (None, "malformed")),
        (b'{"id":1,"id":1,"verb":"ping"}\n', (None, "duplicate_key")),
        (b'{"id":4,"verb":"ping","body":{},"more":1}\n', (4, "unknown_key")),
        (b'{"id":4,"verb":"ping","body":{"more":1}}\n', (4, "unknown_key")),
        (b'{"id":4,"verb":"nothing_of_ours"}\n', (4, "unknown_verb")),
        (b'{"id":4,"verb":"serve","body":{}}\n', (4, "unknown_verb")),
        (b'{"id":4,"verb":"leave"}\n', (4, "unknown_verb")),
        (b'{"id":4,"verb":"response","body":{}}\n', (4, "unknown_verb")),
        (b'{"id":4,"verb":"fetch","body":{}}\n', (4, "unknown_verb")),
        (b"[" * 1_000 + b"\n", (None, "too_deep")),
        (b"x" * (MAX_LINE + 1), (None, "too_large")),
    ],
)
async def test_what_is_no_request_for_one_answer_is_refused(
    path: Path, data: bytes, expected: tuple[object, str]
) -> None:
    async with open_server(path, pong):
        assert await refused(path, data) == expected
        assert await ask(path, "ping") == {"id": 7, "ok": {}}


async def test_a_refusal_of_the_api_and_a_defect_are_answered(path: Path) -> None:
    faults: list[Exception] = [StateConflict("no", code="duplicate_id_conflict"), RuntimeError("a defect")]

    async def call(_: str, __: Document) -> None:
        raise faults.pop(0)

    async with open_server(path, call):
        conflict, defect = [(await ask(path, "ping"))["refused"] for _ in range(2)]
    assert (conflict["failure_class"], conflict["code"]) == ("state_conflict", "duplicate_id_conflict")
    assert defect["failure_class"] == "internal_error"
    assert "a defect" not in defect["detail"]


async def test_another_user_gets_no_answer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_server(path, pong):
        monkeypatch.setattr(line_server, "is_same_user", lambda _: False)
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(PATIENCE_S)
            await anyio.to_thread.run_sync(stranger.connect, str(path))
            assert await anyio.to_thread.run_sync(stranger.recv, 1) == b""


async def test_who_stalls_is_given_up_and_who_is_one_too_many_is_refused(path: Path) -> None:
    limits = LineServerLimits(read_s=PATIENCE_S, send_s=PATIENCE_S, at_once=1)
    waiting, go_on = anyio.Event(), anyio.Event()

    async def call(_: str, __: Document) -> Nothing:
        waiting.set()
        await go_on.wait()
        return Nothing()

    async with open_server(path, call, limits), anyio.create_task_group() as tasks:
        tasks.start_soon(ask, path, "ping")
        await waiting.wait()
        assert json.loads(await talk(path, b""))["refused"]["failure_class"] == BrokerBusy("").failure_class.value
        go_on.set()
    async with open_server(path.with_name("quick.sock"), pong, LineServerLimits(read_s=0.01)):
        assert await talk(path.with_name("quick.sock"), b'{"id":1,') == b""
