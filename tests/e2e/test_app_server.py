"""The real Codex app-server: alone, under `app-server run`, and under `app-server tee` with an independent client."""

import asyncio
import signal

import lifebus
from lifebus.live.model.scripting import HOLD, agent, fail, prompt, run, say
from lifebus_adapters.app_server.facts import ThreadClosed
from lifebus_adapters.app_server.naming import event_type
from lifebus_adapters.app_server.reader import FactSeen, SignalSeen
from lifebus_contract import Receipt
from support.e2e.app_server import LIFEBUS, Client, Place, events_of, place

RUN = (*LIFEBUS, "app-server", "run", "--")
TEE = (*LIFEBUS, "app-server", "tee", "--")

FRAME = ["frame.opened", "frame.ended completed"]


def is_over(receipt: Receipt) -> bool:
    return receipt.event == "session.ended"


async def take_all_turns(client: Client, on: Place) -> str:
    """A turn with a tool that asks for approval, one that fails, one that is interrupted, and a compaction."""
    thread = await client.start(approvalPolicy="untrusted", sandbox="workspace-write")
    asked = await client.begin(thread, prompt("Work.", run("touch made", 2_000), say("done", 3_000)))
    request = await client.wait(lambda one: one.get("method", "").endswith("requestApproval"))
    await client.send({"id": request["id"], "result": {"decision": "accept"}})
    assert (await client.ended(asked))["status"] == "completed"
    assert (on.box.project / "made").exists()
    assert (await client.turn(thread, prompt("Fail.", fail(400))))["status"] == "failed"
    held = await client.begin(thread, prompt("Wait.", HOLD))
    await asyncio.to_thread(on.model.wait_held)
    await client.ask("turn/interrupt", threadId=thread, turnId=held)
    assert (await client.ended(held))["status"] == "interrupted"
    await client.ask("thread/compact/start", threadId=thread)
    await client.wait(
        lambda one: (
            one.get("params", {}).get("item", {}).get("type") == "contextCompaction"
            and one["method"] == "item/completed"
        )
    )
    await client.wait(lambda one: client.methods.count("turn/completed") == 4)
    return thread


ALL_TURNS = [
    "session.started started",
    "frame.opened",
    "supervisor.tick asked",
    "supervisor.tick answered",
    "frame.ended completed",
    "frame.opened",
    "frame.ended failed",
    "frame.opened",
    "frame.ended interrupted",
    "frame.opened",
    "context.compacted",
    "frame.ended completed",
]


def without_pressure(receipts: list[Receipt]) -> list[str]:
    return [name for name in events_of(receipts) if not name.startswith("context.pressure_observed")]


async def test_what_a_real_server_says_is_read_to_the_last_message() -> None:
    async with place(with_broker=False) as on, on.client() as client:
        thread = await take_all_turns(client, on)
        assert await client.close() == 0
        read = [one.event_type for one in client.observed if isinstance(one, SignalSeen)]
        asks = ["id" in message for message in client.messages if "method" in message]
        assert read == [event_type(name, request=one) for name, one in zip(client.methods, asks, strict=True)]
        assert (client.reader.counters.junk, client.reader.counters.withheld) == (0, 0)
        facts = [type(one.fact).__name__ for one in client.observed if isinstance(one, FactSeen)]
        assert [name for name in facts if name != "Usage"] == [
            "ThreadOpened",
            *("TurnStarted", "OperatorAsked", "OperatorAnswered", "TurnEnded"),
            *("TurnStarted", "TurnEnded") * 2,
            *("TurnStarted", "Compacted", "TurnEnded"),
        ]
        (over,) = client.reader.close({"exit_code": 0})
        assert isinstance(over, FactSeen)
        assert isinstance(over.fact, ThreadClosed)
        assert over.fact.session == thread


async def test_a_whole_life_under_run_is_told_as_signals_and_receipts() -> None:
    async with place() as on, on.client(*RUN) as client:
        thread = await take_all_turns(client, on)
        assert await client.close() == 0
        receipts = await on.receipts_until(is_over)
        assert without_pressure(receipts) == [*ALL_TURNS, "session.ended completed"]
        assert {one.harness_session_id for one in receipts} == {thread}
        assert [one.sequence for one in receipts] == list(range(1, len(receipts) + 1))
        pressures = [one.telemetry_summary for one in receipts if one.event == "context.pressure_observed"]
        assert pressures[0]["context_window_tokens"] == 20_000 * 95 // 100
        assert pressures[0]["context_used_tokens"] in {
            2_012,
            3_012,
        }  # the wire's first, or the rollout's newest by then
        failed = next(one for one in receipts if one.telemetry_summary.get("frame_end") == "failed")
        assert failed.telemetry_summary.get("retry_class") is not None, failed.telemetry_summary
        assert await signals_of(on, thread) == [
            message["method"] for message in client.messages if _is_about(message, thread)
        ]


def _is_about(message: dict[str, object], thread: str) -> bool:
    params = message.get("params")
    return (
        "method" in message
        and isinstance(params, dict)
        and thread
        in {
            params.get("threadId"),
            (params.get("thread") or {}).get("id"),
        }
    )


async def signals_of(on: Place, thread: str) -> list[str]:
    assert on.bus is not None
    found = on.bus.signals(thread=thread, since="start", until_head=True)
    return [one.envelope["method"] async for one in found if isinstance(one, lifebus.SignalReceived)]


async def test_a_server_killed_in_the_middle_of_a_turn_is_told_and_its_thread_goes_on_in_the_next() -> None:
    async with place() as on:
        async with on.client(*RUN) as client:
            thread = await client.start()
            await client.turn(thread, prompt("Begin.", say("begun")))
            await client.begin(thread, prompt("Wait.", HOLD))
            await asyncio.to_thread(on.model.wait_held)
            client.kill_server()
            assert await client.process.wait() == -signal.SIGKILL
        receipts = await on.receipts_until(is_over)
        begun = ["session.started started", *FRAME, "frame.opened"]
        assert without_pressure(receipts) == [*begun, "frame.ended abandoned", "session.ended abandoned"]
        assert receipts[-1].telemetry_summary["signal"] == signal.SIGKILL
        async with on.client(*RUN) as client:
            await client.ask("thread/resume", threadId=thread)
            await client.turn(thread, prompt("Go on.", say("gone on")))
            assert await client.close() == 0
        again = await on.receipts_until(lambda one: is_over(one) and one.sequence != receipts[-1].sequence)
        assert without_pressure(again[len(receipts) :]) == [
            "session.started resumed",
            *FRAME,
            "session.ended completed",
        ]


async def test_a_client_behind_tee_sees_what_the_server_wrote_byte_for_byte() -> None:
    async with place() as on:
        kept = 'tee "$HOME/in" | "$CODEX" app-server | tee "$HOME/out"'
        async with on.client(*TEE, shell=kept) as client:
            thread = await take_all_turns(client, on)
            assert await client.close() == 0
            assert (on.box.home / "in").read_bytes() == bytes(client.sent)
            assert (on.box.home / "out").read_bytes() == bytes(client.got)
        receipts = await on.receipts_until(is_over)
        assert without_pressure(receipts) == [*ALL_TURNS, "session.ended completed"]
        assert len(await signals_of(on, thread)) > 40


async def test_a_broker_that_is_away_for_a_while_changes_nothing_for_the_client_and_hears_of_it_later() -> None:
    async with place() as on:
        async with on.client(*TEE, shell='exec "$CODEX" app-server') as client:
            thread = await client.start()
            await client.turn(thread, prompt("Begin.", say("begun")))
            await on.receipts_until(lambda one: one.event == "frame.ended")
            assert on.broker is not None
            await on.broker.kill()
            await client.turn(thread, prompt("Go on.", say("gone on")))
            async with on.broker_again():
                last = await client.begin(thread, prompt("Still there?", say("still there")))
                await client.ended(last)
                await on.receipts_until(
                    lambda one: one.event == "frame.ended" and one.telemetry_summary["frame_id"] == last
                )
                assert await client.close() == 0
                receipts = await on.receipts_until(is_over)
        assert without_pressure(receipts) == [
            "session.started started",
            *FRAME * 3,
            "session.ended completed",
        ]


async def test_a_sub_agents_thread_tells_nothing() -> None:
    async with place() as on, on.client(*RUN) as client:
        thread = await client.start()
        await client.turn(thread, prompt("Delegate.", agent("look around"), say("delegated")))
        assert await client.close() == 0
        receipts = await on.receipts_until(is_over)
        threads = {message["params"].get("threadId") for message in client.messages if "params" in message}
        assert len(threads - {None, thread}) == 1
        assert {one.harness_session_id for one in receipts} == {thread}
        assert without_pressure(receipts) == ["session.started started", *FRAME, "session.ended completed"]
        assert on.bus is not None
        signals = [one async for one in on.bus.signals(since="start", until_head=True)]
        assert {one.thread for one in signals} == {"", thread}


async def test_hooks_and_the_wire_tell_of_one_session_once() -> None:
    hooked = ["frame.opening", "frame.opened"]
    async with place() as on:
        await on.install_hooks()
        async with on.client(*RUN) as client:
            thread = await client.start()
            await client.turn(thread, prompt("Begin.", run("echo hi", 2_000), say("begun")))
            await client.turn(thread, prompt("Fail.", fail(400)))
            await on.receipts_until(lambda one: one.telemetry_summary.get("frame_end") == "failed")
            assert await client.close() == 0
        receipts = await on.receipts_until(is_over)
        assert "hook/started" in client.methods
        assert without_pressure(receipts) == [
            *("session.starting", "session.started", *hooked, "frame.ending", "frame.ended completed"),
            *(*hooked, "frame.ended failed", "session.ending", "session.ended completed"),
        ]
        failed = next(one for one in receipts if one.telemetry_summary.get("frame_end") == "failed")
        assert (failed.client_id, failed.telemetry_summary["error"]) == ("lifebus.supervisor", "other")


async def test_a_short_turn_under_tee_with_hooks_that_nobody_trusts_is_whole_and_ends_as_the_server_ended() -> None:
    """Seen right after `hooks install codex`: no start, no frames, an abandoned end, and the rest minutes later."""
    async with place() as on:
        on.add_hooks()
        async with on.client(*TEE, shell='exec "$CODEX" app-server') as client:
            thread = await client.start()
            await client.turn(thread, prompt("Begin.", say("begun")))
            assert await client.close() == 0
        whole = ["session.started started", *FRAME, "session.ended completed"]
        receipts = await on.receipts_until(is_over)
        assert [name for name in without_pressure(receipts) if name in whole] == whole
        assert receipts[-1].telemetry_summary["exit_code"] == 0
        (loss,) = [one for one in receipts if one.event == "capability.degraded"]
        assert loss.telemetry_summary["cause"] == "hooks_silent"
        assert "trust" in str(loss.telemetry_summary["evidence"])
        on.remove_hooks()  # the rule about hooks changes, and nothing more comes of it behind the end
        for _ in range(4):
            await on.tick()
        assert await on.receipts_until(is_over) == receipts
        assert on.bus is not None
        later = [one async for one in on.bus.receipts(since="start", until_head=True)]
        assert [one for one in later if isinstance(one, Receipt) and one.harness_session_id == thread] == receipts
        assert [one.sessions for one in (await on.bus.status()).harnesses] == [0]


async def test_a_sub_agent_beside_hooks_ends_every_frame_once() -> None:
    async with place() as on:
        await on.install_hooks()
        async with on.client(*RUN) as client:
            thread = await client.start()
            await client.turn(thread, prompt("Delegate.", agent("look around"), say("delegated")))
            assert await client.close() == 0
        receipts = await on.receipts_until(lambda one: is_over(one) and one.harness_session_id == thread)
        for _ in range(4):
            await on.tick()
        assert on.bus is not None
        later = [one async for one in on.bus.receipts(since="start", until_head=True)]
        receipts = [one for one in later if isinstance(one, Receipt) and one.harness_session_id is not None]
        assert {one.harness_session_id for one in receipts} == {thread}
        frames = {
            event: sorted(str(one.telemetry_summary["frame_id"]) for one in receipts if one.event == event)
            for event in ("frame.opened", "frame.ended")
        }
        assert frames["frame.ended"] == frames["frame.opened"] == sorted(set(frames["frame.ended"]))
        assert receipts[-1].event == "session.ended"
