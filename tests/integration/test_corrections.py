"""What a delivery promised is taken back when it turns out false: a refused prompt, an answer that nobody took."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import lifebus
from lifebus_adapters.adapter import HookCall
from lifebus_contract import (
    CallbackResponse,
    DispatchEnvelope,
    Emission,
    FrameContext,
    LifecycleEvent,
    Receipt,
    ReceiptStatus,
)
from lifebus_supervisor.configuration.settings import TelemetrySettings, TickSettings
from lifebus_supervisor.corrections.corrector import Corrector
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_transports.framing.hook_frames import encode_call
from support.integration.following import recorded, until
from support.integration.serving import Handler, serving
from support.paths import REPOSITORY
from support.patience import PATIENCE_MS, PATIENCE_S
from support.running import connected, running_bus, settings_in, short_directory
from support.transports.hook_server_box import talk

CAPTURE = REPOSITORY / "tests/data/captures/claude/print_prompt_blocked"
SESSION = "0000028a-0299-42eb-8bf1-d389b8d73213"
STARTING, OPENING, ENDED = LifecycleEvent.SESSION_STARTING, LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_ENDED


def delivering(client_id: str, body: str = "remember the milk") -> Handler:
    """A client that has something to deliver whenever it is asked."""

    async def answer(envelope: DispatchEnvelope) -> CallbackResponse:
        placement = "pre_prompt_frame" if envelope.request.event is STARTING else "developer_equivalent_frame"
        payload = lifebus.make_payload(client_id, body, placements=[(placement, "preferred")])
        return CallbackResponse.ok(ReceiptStatus.DELIVERED, payload)

    return answer


def deliveries(receipts: list[Receipt]) -> list[tuple[str, str, str, str]]:
    return [
        (one.client_id, one.event.value, one.status.value, payload.payload_id)
        for one in receipts
        for payload in one.payload_receipts
    ]


async def recorded_until(daemon: Daemon, condition: Callable[[list[Receipt]], bool]) -> list[Receipt]:
    """The receipts from the first one to that with which the condition holds."""
    seen: list[Receipt] = []
    async with asyncio.timeout(PATIENCE_S), connected(daemon, "reader") as bus:
        async for item in bus.receipts(since="start"):
            assert isinstance(item, Receipt)
            seen.append(item)
            if condition(seen):
                return seen
    raise AssertionError("the stream ended")


def corrected(count: int) -> Callable[[list[Receipt]], bool]:
    return lambda receipts: sum("corrects" in one.telemetry_summary for one in receipts) >= count


class Claude:
    """The recorded run of Claude Code whose only prompt another hook refused, played to a broker."""

    def __init__(self, home: Path, daemon: Daemon) -> None:
        self._daemon = daemon
        self._transcript = home / "claude/projects/-home-dev-project" / f"{SESSION}.jsonl"
        self._transcript.parent.mkdir(parents=True, exist_ok=True)
        lines = (CAPTURE / "hooks.jsonl").read_text().splitlines()
        self.hooks = {line["event"]: line["stdin"] for line in map(json.loads, lines)}

    def message(self, event: str, **fields: Any) -> bytes:
        stdin = json.dumps({**self.hooks[event], "transcript_path": str(self._transcript)}).encode()
        plain: dict[str, Any] = {"call_id": f"hook-1a0b-{event}", "adapter_id": "claude", "hook": event} | fields
        return encode_call(HookCall(**plain, cwd="/", env={}, stdin=stdin))

    async def call(self, event: str, **fields: Any) -> bytes:
        return await talk(self._daemon.settings.runtime_dir / "hook.sock", self.message(event, **fields), finish=False)

    def write_transcript(self) -> None:
        self._transcript.write_text((CAPTURE / "projects/-home-dev-project" / f"{SESSION}.jsonl").read_text())


@asynccontextmanager
async def supervising(directory: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Daemon]:
    """A broker that ticks twenty times a second and reads Claude's files in the directory."""
    monkeypatch.setenv("LIFEBUS_CLAUDE_HOME", str(directory / "claude"))
    monkeypatch.setenv("HOME", str(directory))
    calm = settings_in(directory, hook_answer_ms=PATIENCE_MS)
    quick = structs.replace(calm, ticks=TickSettings(interval_ms=50), telemetry=TelemetrySettings())
    async with running(quick) as daemon:
        yield daemon


async def test_what_was_delivered_to_a_refused_prompt_is_taken_back_for_each_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with short_directory() as directory:
        async with (
            supervising(directory, monkeypatch) as daemon,
            connected(daemon, "ada") as ada,
            connected(daemon, "bob") as bob,
            serving(ada, delivering("ada"), [OPENING, STARTING]),
            serving(bob, delivering("bob"), [OPENING]),
        ):
            claude = Claude(directory, daemon)
            await claude.call("SessionStart")
            assert b"remember the milk" in await claude.call("UserPromptSubmit")
            claude.write_transcript()
            await claude.call("SessionEnd")
            receipts = await recorded_until(daemon, corrected(2))
            (head,) = await daemon.bus.ledger.sessions()
            assert await daemon.bus.ledger.verify() == []
    promised = {one.client_id: one for one in receipts if one.event is OPENING and one.status == "delivered"}
    taken_back = {one.client_id: one for one in receipts if "corrects" in one.telemetry_summary}
    assert promised.keys() == taken_back.keys() == {"ada", "bob"}
    for client_id, correction in taken_back.items():
        delivery = promised[client_id]
        assert correction.event is OPENING
        assert (correction.status, correction.failure_class, correction.retry_class) == (
            "failed",
            "payload_rejected",
            "retry_after_reconfigure",
        )
        assert correction.parent_receipt_id == correction.telemetry_summary["corrects"] == delivery.receipt_id
        assert (correction.event_id, correction.invocation_id) == (delivery.event_id, delivery.invocation_id)
        (before,), (after,) = delivery.payload_receipts, correction.payload_receipts
        assert after == structs.replace(before, status=after.status)
        assert (before.status, after.status) == ("delivered", "failed")
        facts = correction.telemetry_summary
        assert facts["frame_id"] == delivery.telemetry_summary["frame_id"]
        assert (facts["cause"], facts["evidence"]) == (
            "prompt_blocked",
            "transcript:promptSubmitEnding.blocked_by_hook",
        )
        assert [one.code for one in correction.warnings] == ["prompt_blocked"]
        assert receipts.index(correction) > receipts.index(
            next(one for one in receipts if one.telemetry_summary.get("frame_end") == "blocked")
        )
    # What stands in the session's own context goes with its next prompt; the session is as ended as before.
    assert [status for _, event, status, _ in deliveries(receipts) if event == STARTING] == ["delivered"]
    assert (head.ended, head.open_frames) == (True, ())


def prompt(event: str, frame: str = "f1", end: str | None = None) -> Emission:
    context = FrameContext(frame_id=frame, frame_class="top_level")  # type: ignore[arg-type]
    request = lifebus.make_request(event, "claude", session="s1", frame=context)
    return Emission(request=request, telemetry={} if end is None else {"frame_end": end})


async def never(_: Corrector) -> None:
    await asyncio.Event().wait()


async def test_a_broker_that_ended_in_between_leaves_the_correction_to_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with short_directory() as directory:
        with monkeypatch.context() as killed:
            killed.setattr(Corrector, "run", never)
            killed.setattr(Corrector, "is_pending", False)
            async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
                daemon.bus.register("ada", [OPENING], delivering("ada"))
                for one in (prompt("frame.opening"), prompt("frame.ended", end="blocked")):
                    await bus.emit(one)
                before = await recorded(daemon)
        async with running_bus(directory=directory) as daemon:
            after = await recorded_until(daemon, corrected(1))
            assert await daemon.bus.ledger.verify() == []
        async with running_bus(directory=directory) as daemon:
            await until(lambda: not daemon.corrector.is_pending)
            assert await recorded(daemon) == after
    assert [status for _, _, status, _ in deliveries(before)] == ["delivered"]
    assert [status for _, _, status, _ in deliveries(after)] == ["delivered", "failed"]
    assert len(after) == len(before) + 1


@pytest.mark.parametrize("end", ["completed", "unknown", "abandoned", "failed"])
async def test_any_other_end_takes_nothing_back(end: str) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        daemon.bus.register("ada", [OPENING], delivering("ada"))
        await bus.emit(prompt("frame.opening"))
        await bus.emit(prompt("frame.ended", end=end))
        # One that is taken back behind it shows that the other had its turn.
        await bus.emit(prompt("frame.opening", "f2"))
        await bus.emit(prompt("frame.ended", "f2", end="blocked"))
        receipts = await recorded_until(daemon, corrected(1))
    taken_back = [one for one in receipts if "corrects" in one.telemetry_summary]
    assert [one.telemetry_summary["frame_id"] for one in taken_back] == ["f2"]


async def test_a_correction_neither_opens_the_frame_again_nor_allows_a_second_end() -> None:
    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            daemon.bus.register("ada", [OPENING], delivering("ada"))
            await bus.emit(prompt("frame.opening"))
            await bus.emit(prompt("frame.ended", end="blocked"))
            await recorded_until(daemon, corrected(1))
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            (head,) = await daemon.bus.ledger.sessions()
            with pytest.raises(lifebus.LifebusError) as refused:
                await bus.emit(prompt("frame.ended", end="completed"))
    assert head.open_frames == ()
    assert refused.value.code == "frame_ended"


async def test_what_stood_in_an_answer_that_nobody_took_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def slow(envelope: DispatchEnvelope) -> CallbackResponse:
        asked.set()
        await gone.wait()
        return await delivering("ada")(envelope)

    with short_directory() as directory:
        async with running_bus(directory=directory, hook_answer_ms=PATIENCE_MS) as daemon:
            daemon.bus.register("ada", [OPENING], slow, deadline=PATIENCE_S)
            claude = Claude(directory, daemon)
            with socket.socket(socket.AF_UNIX) as hook:
                hook.connect(str(daemon.settings.runtime_dir / "hook.sock"))
                hook.sendall(claude.message("UserPromptSubmit"))
                async with asyncio.timeout(PATIENCE_S):
                    await asked.wait()
            gone.set()
            receipts = await recorded_until(daemon, corrected(1))
    assert [status for _, _, status, _ in deliveries(receipts)] == ["delivered", "failed"]
    assert receipts[-1].failure_class == "payload_rejected"
    assert receipts[-1].telemetry_summary["cause"] == "answer_not_taken"
    assert [one.code for one in receipts[-1].warnings] == ["answer_not_taken"]


async def test_a_call_that_comes_again_from_the_spool_shows_that_its_answer_was_lost() -> None:
    with short_directory() as directory:
        async with running_bus(directory=directory, hook_answer_ms=PATIENCE_MS) as daemon:
            daemon.bus.register("ada", [OPENING], delivering("ada"))
            claude = Claude(directory, daemon)
            assert b"remember the milk" in await claude.call("UserPromptSubmit")
            assert not daemon.corrector.is_pending
        # As a broker leaves it that was killed when all was durable and nothing was answered.
        async with running_bus(directory=directory) as daemon:
            claude = Claude(directory, daemon)
            await claude.call("UserPromptSubmit", spooled_at_epoch_s=1_800_000_000)
            first = await recorded_until(daemon, corrected(1))
            await claude.call("UserPromptSubmit", spooled_at_epoch_s=1_800_000_000)
            await until(lambda: not daemon.corrector.is_pending)
            assert await recorded(daemon) == first
    assert [status for _, _, status, _ in deliveries(first)] == ["delivered", "failed"]
    assert first[-1].telemetry_summary["cause"] == "answer_not_taken"


async def test_another_call_for_the_same_moment_takes_nothing_back() -> None:
    async with running_bus(hook_answer_ms=PATIENCE_MS) as daemon:
        daemon.bus.register("ada", [OPENING], delivering("ada"))
        claude = Claude(daemon.settings.state_dir, daemon)
        assert b"remember the milk" in await claude.call("UserPromptSubmit")
        other = {"call_id": "hook-1a0b-other", "spooled_at_epoch_s": 1_800_000_000}
        await claude.call("UserPromptSubmit", **other)
        await until(lambda: not daemon.corrector.is_pending)
        receipts = await recorded(daemon)
    assert [status for _, _, status, _ in deliveries(receipts)] == ["delivered"]
