"""The real Codex CLI, renewed across two sessions by a client program that keeps a log."""

import asyncio
from pathlib import Path

from lifebus.live.model.scripting import prompt, run, say
from lifebus.live.programs.base import Turn
from lifebus.live.programs.codex import CODEX
from lifebus_contract import Receipt, encode_json
from lifebus_supervisor.renewal.store import open_store
from support.broker_process import until
from support.e2e.harness_run import harness_run
from support.renewal_client import MARK, ClientLog, configuration


def payloads(receipts: list[Receipt]) -> list[tuple[str, str, str]]:
    """Return what the client's receipts say of its token: kind, payload id, session."""
    return [
        (payload.payload_kind, payload.payload_id, str(one.harness_session_id))
        for one in receipts
        if one.client_id == "book"
        for payload in one.payload_receipts
    ]


async def test_a_turns_end_prepares_and_the_next_session_completes_and_nobody_sees_the_token(tmp_path: Path) -> None:
    log = ClientLog(tmp_path)
    async with harness_run(CODEX, configuration(tmp_path)) as on:
        store = open_store(on.box.state_dir)
        first = await on.run(Turn(prompt("Begin.", run("echo hi"), say("begun"))))
        await until(lambda: [one.state for one in store.records()[0]] == ["pending"])
        second = await on.run(Turn(prompt("Go on.", say("gone on"))))
        await until(lambda: [one.state for one in store.records()[0]] == ["consumed"])
        await on.first(lambda one: [item.payload_kind for item in one.payload_receipts] == ["renewal.continuation"])
        prepared, used = payloads(await on.receipts())
        sessions = [head.harness_session_id for head in await on.bus.sessions()]
        assert (prepared[0], used[0]) == ("renewal.reset_prepare", "renewal.continuation")
        assert prepared[1] == used[1]
        assert [prepared[2], used[2]] == sorted(sessions, key=[prepared[2], used[2]].index)
        assert [line["used"] for line in log.lines if "used" in line] == [used[1]]
        assert [line for line in log.lines if "refused" in line] == []  # the process list was looked at, too
        shown = f"{first.out}{first.err}{second.out}{second.err}{on.broker.log}{on.model.requests}"
        shown += b"".join(encode_json(one) for one in await on.receipts()).decode()
        assert MARK not in shown
        written = [path for path in on.box.home.rglob("*") if path.is_file()]
        assert not await asyncio.to_thread(lambda: [path for path in written if MARK.encode() in path.read_bytes()])


async def test_a_resumed_session_gets_its_own_token(tmp_path: Path) -> None:
    log = ClientLog(tmp_path)
    async with harness_run(CODEX, configuration(tmp_path)) as on:
        store = open_store(on.box.state_dir)
        await on.run(Turn(prompt("Begin.", say("begun"))))
        await until(lambda: [one.state for one in store.records()[0]] == ["pending"])
        session = await on.session()
        await on.run(Turn(prompt("Go on.", say("gone on")), session))
        await until(lambda: [one.state for one in store.records()[0]] == ["consumed"])
        assert [line["session"] for line in log.lines if line.get("asked") == "consume"] == [session]
