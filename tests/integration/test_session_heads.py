"""Which project: hooks say it, receipts and heads show as much of it as is recorded, names outlive the broker."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import lifebus
from lifebus_broker.privacy import CwdPrivacy
from lifebus_contract import InvalidRequest
from lifebus_supervisor.configuration.settings import PrivacySettings
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.messages.reads import Backfill
from lifebus_transports.messages.signals import ObservedFact
from support.integration.following import until
from support.integration.hooking import call_hook
from support.integration.observing import Observer
from support.running import connected, running_bus, short_directory, until_answered


async def begin(daemon: Daemon, adapter: str, session: str, cwd: str) -> None:
    await call_hook(daemon, adapter, hook_event_name="SessionStart", session_id=session, source="startup", cwd=cwd)


async def recorded(daemon: Daemon) -> list[dict[str, Any]]:
    async with connected(daemon) as bus:
        return [json.loads(one.receipt) for one in (await bus.read(Backfill())).rows]


@pytest.mark.parametrize(("setting", "shown"), [("full", "/srv/work/shop"), ("name", "shop"), ("none", None)])
async def test_receipts_and_heads_show_as_much_of_the_directory_as_is_set(
    setting: CwdPrivacy, shown: str | None
) -> None:
    async with running_bus(privacy=PrivacySettings(cwd=setting)) as daemon:
        await begin(daemon, "claude", "s1", "/srv/work/shop")
        receipts = await recorded(daemon)
        async with connected(daemon) as bus:
            (head,) = await bus.sessions()
    assert [one["telemetry_summary"].get("cwd") for one in receipts] == [shown] * 2
    assert (head.cwd, head.name) == (shown, "claude#1" if shown is None else "shop#1")
    assert setting == "full" or "/srv" not in json.dumps(receipts)


async def test_heads_say_what_happened_in_a_session() -> None:
    async with running_bus() as daemon:
        await begin(daemon, "claude", "s1", "/srv/shop")
        about = {"session_id": "s1", "cwd": "/srv/shop", "prompt_id": "p1"}
        await call_hook(daemon, "claude", hook_event_name="UserPromptSubmit", prompt="hello", **about)
        nested = {**about, "agent_id": "a1", "agent_type": "Explore"}
        await call_hook(daemon, "claude", hook_event_name="SubagentStart", **nested)
        await call_hook(daemon, "claude", hook_event_name="PostCompact", trigger="manual", **about)
        await call_hook(daemon, "claude", hook_event_name="StopFailure", error="server_error", **about)
        async with connected(daemon) as bus:
            (head,) = await bus.sessions(("claude", "s1"))
            assert await bus.sessions(("claude", "nobody")) == []
    assert (head.turns, head.subagents, head.compactions, head.failures) == (1, 1, 1, 1)
    assert (head.cwd, head.pressure) == ("shop", None)


async def test_names_are_those_of_the_log_over_restarts_and_in_what_a_boot_shows() -> None:
    async def names(daemon: Daemon) -> dict[str, str | None]:
        assert daemon.follower is not None
        await daemon.follower.caught_up.wait()
        async with connected(daemon) as bus:
            return {one.harness_session_id: one.name for one in await bus.sessions()}

    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon:
            await begin(daemon, "claude", "z", "/srv/api")
            await begin(daemon, "codex", "a", "/home/dev/api")
            await begin(daemon, "codex", "m", "/srv/web")
            before = await names(daemon)
        assert before == {"z": "api#1", "a": "api#2", "m": "web#1"}
        async with running_bus(directory=directory) as daemon:
            await begin(daemon, "gemini", "b", "/srv/api")
            assert await names(daemon) == {**before, "b": "api#3"}
            await until(lambda: not daemon.bus.dispatches)
            async with connected(daemon) as bus:
                live = json.loads((await bus.saves.resume()).raw)["sessions"]
        assert {one["harness_session_id"]: (one["name"], one["cwd"]) for one in live} == {
            "z": ("api#1", "api"),
            "a": ("api#2", "api"),
            "m": ("web#1", "web"),
            "b": ("api#3", "api"),
        }


async def test_an_app_server_says_where_its_thread_works_and_what_it_is_called() -> None:
    opened: dict[str, Any] = {
        "type": "ThreadOpened",
        "session": "t1",
        "how": "started",
        "method": "thread/started",
        "cwd": "/srv/work/shop",
        "git_branch": "fix/it",
        "title": "My chat",
    }
    async with running_bus() as daemon:
        async with connected(daemon) as bus:
            await Observer(bus, "o1").observe(ObservedFact(fact=opened))
            await daemon.supervisor.tick()
            (head,) = await until_answered(bus.sessions, lambda heads: heads and heads[0].name)
        (begun,) = [one for one in await recorded(daemon) if one["event"] == "session.started"]
    facts = begun["telemetry_summary"]
    assert (facts["cwd"], facts["git_branch"], facts["title"]) == ("shop", "fix/it", "My chat")
    assert (head.name, head.git_branch, head.title) == ("shop#1", "fix/it", "My chat")


async def test_a_ledger_that_keeps_no_state_has_heads_without_names() -> None:
    async with running_bus(backend="memory") as daemon:
        await begin(daemon, "claude", "s1", "/srv/shop")
        async with connected(daemon) as bus:
            (head,) = await bus.sessions()
    assert (head.harness_session_id, head.name, head.turns) == ("s1", None, None)


def test_the_settings_are_those_that_the_page_names() -> None:
    page = Path(__file__).parents[2].joinpath("docs/sessions.md").read_text()
    assert PrivacySettings().cwd == "name"
    assert all(f"| `{one}` |" in page for one in ("name", "full", "none"))


async def test_the_library_takes_short_names_and_refuses_those_of_nobody() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        for session in ("s1", "s2"):
            await begin(daemon, "claude", session, "/srv/shop")
        followed = bus.receipts(session="shop#2")
        await followed.join()
        for session in ("s1", "s2"):
            await call_hook(daemon, "claude", hook_event_name="UserPromptSubmit", session_id=session, prompt_id="p")
        assert (await anext(followed)).harness_session_id == "s2"
        await followed.aclose()
        whole = [one async for one in bus.receipts(session="shop#2", since="start", until_head=True)]
        assert whole == [one async for one in bus.receipts(session=("claude", "s2"), since="start", until_head=True)]
        assert {one.harness_session_id for one in whole} == {"s2"}
        assert await bus.sessions("shop#1") == await bus.sessions(("claude", "s1"))
        assert await bus.sessions("shop#3") == []
        with pytest.raises(InvalidRequest, match="no session is called `shop#3`") as refused:
            await anext(bus.receipts(session="shop#3"))
        assert (refused.value.code, refused.value.field) == ("no_session", "session")

        def read() -> int:
            with lifebus.blocking.connect("b", runtime_dir=daemon.settings.runtime_dir) as blocking:
                assert [one.harness_session_id for one in blocking.sessions("shop#2")] == ["s2"]
                return len(list(blocking.receipts(session="shop#2", since="start", until_head=True)))

        assert await asyncio.to_thread(read) == len(whole)
