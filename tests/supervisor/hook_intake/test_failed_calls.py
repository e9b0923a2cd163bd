"""Hook calls that cannot be read: nothing for the harness, one failed receipt, not a word of the payload, no flood."""

import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from lifebus_adapters import ADAPTERS
from lifebus_adapters.adapter import HookAnswer, HookCall
from lifebus_broker.ports import Query
from lifebus_contract import SERVABLE_EVENTS, BrokerBusy, CallbackResponse, DispatchEnvelope
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.hook_intake.calls import CLIENT_ID, HookCalls
from lifebus_supervisor.hook_intake.failed_calls import A_MINUTE, CallCounters, FailureLimit
from lifebus_transports.framing.hook_frames import encode_call
from lifebus_transports.hooks.spool import drain_spool
from support.running import running_bus

SECRET = "the king's new clothes"
SESSION = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "turn_id": "t1", "prompt": SECRET}
DEEP = b"[" * 200 + b"]" * 200

BAD = {
    "empty": (b"", "malformed"),
    "cut_off": (json.dumps(SESSION).encode()[:-5], "malformed"),
    "no_object": (json.dumps([SECRET]).encode(), "wrong_type"),
    "no_text": (b"\xff\xfe" + SECRET.encode(), "malformed"),
    "key_twice": (b'{"%b":1,"%b":2}' % (SECRET.encode(), SECRET.encode()), "duplicate_key"),
    "deep": (b'{"%b":%b}' % (SECRET.encode(), DEEP), "too_deep"),
    "nan": (b'{"x":NaN}', "not_finite"),
    "huge_integer": (b'{"%b":123456789012345678901234567890}' % SECRET.encode(), "integer_range"),
    "session_a_number": (json.dumps(SESSION | {"session_id": 7}).encode(), "wrong_type"),
    "turn_a_list": (json.dumps(SESSION | {"turn_id": [SECRET]}).encode(), "wrong_type"),
    "no_session": (b'{"hook_event_name":"Stop"}', "missing"),
    "unknown_hook": (json.dumps(SESSION | {"hook_event_name": SECRET}).encode(), "unknown_hook"),
    "control_in_id": (json.dumps(SESSION | {"session_id": "a\x00" + SECRET}).encode(), "bad_identifier"),
}


def call(stdin: bytes = b"{", call_id: str = "hook-18bcfe5687b-1", **changes: Any) -> HookCall:
    settings: dict[str, Any] = {"adapter_id": "codex", "hook": "UserPromptSubmit", "cwd": "/w", "env": {}} | changes
    return HookCall(call_id=call_id, stdin=stdin, **settings)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def calls_of(daemon: Daemon, clock: Clock | None = None) -> HookCalls:
    return HookCalls(daemon.bus, ADAPTERS, 1.0, clock or Clock())


async def recorded(daemon: Daemon) -> list[dict[str, Any]]:
    page = await daemon.bus.ledger.read(Query())
    return [json.loads(one.receipt) for one in page.stored]


@pytest.mark.parametrize(("stdin", "reason"), BAD.values(), ids=BAD.keys())
async def test_a_payload_that_no_harness_sends_is_one_failed_receipt_and_no_answer(stdin: bytes, reason: str) -> None:
    async with running_bus(backend="memory") as daemon:
        with structlog.testing.capture_logs() as logs:
            assert await calls_of(daemon).handle(call(stdin)) == HookAnswer()
        (receipt,) = await recorded(daemon)
    assert (receipt["status"], receipt["failure_class"], receipt["retry_class"]) == (
        "failed",
        "invalid_request",
        "do_not_retry",
    )
    assert (receipt["adapter_id"], receipt["client_id"], receipt["event"]) == ("codex", CLIENT_ID, "supervisor.tick")
    summary = receipt["telemetry_summary"]
    assert (summary["reason"], summary["size"], summary["source_hook"]) == (reason, len(stdin), "UserPromptSubmit")
    for text in (json.dumps(receipt), repr(logs)):
        assert SECRET not in text
        assert SECRET[:8] not in text


async def test_the_session_and_the_field_are_told_where_they_can_be_read() -> None:
    async with running_bus(backend="memory") as daemon:
        await calls_of(daemon).handle(call(BAD["turn_a_list"][0], "c1"))
        await calls_of(daemon).handle(call(BAD["session_a_number"][0], "c2"))
        first, second = await recorded(daemon)
    assert (first["harness_session_id"], first["telemetry_summary"]["field"]) == ("s1", "$.turn_id")
    assert (second["harness_session_id"], second["telemetry_summary"]["field"]) == (None, "$.session_id")


async def test_a_payload_too_large_to_be_carried_is_recorded_by_its_size() -> None:
    async with running_bus(backend="memory") as daemon:
        assert await calls_of(daemon).handle(call(b"", oversized=3_000_000)) == HookAnswer()
        (receipt,) = await recorded(daemon)
    assert receipt["telemetry_summary"] == {"reason": "oversized", "size": 3_000_000, "source_hook": "UserPromptSubmit"}


async def test_a_large_payload_is_read_beside_the_loop_with_the_same_result() -> None:
    large = SESSION | {"prompt": "x" * 200_000}
    async with running_bus(backend="memory") as daemon:
        calls = calls_of(daemon)
        await calls.handle(call(json.dumps(large).encode(), "c1"))
        await calls.handle(call(json.dumps(large | {"turn_id": 5}).encode(), "c2"))
        found = await recorded(daemon)
    assert [(receipt["event"], receipt["harness_session_id"]) for receipt in found] == [
        ("frame.opening", "s1"),
        ("frame.opened", "s1"),
        ("supervisor.tick", "s1"),
    ]


async def test_a_bad_call_that_comes_again_is_recorded_once_and_asks_nobody() -> None:
    asked: list[DispatchEnvelope] = []

    async def handle(envelope: DispatchEnvelope) -> CallbackResponse:
        asked.append(envelope)
        return CallbackResponse.ok()

    async with running_bus(backend="memory") as daemon:
        daemon.bus.register("client", SERVABLE_EVENTS, handle)
        calls = calls_of(daemon)
        await calls.handle(call())
        await calls.handle(call(spooled_at_epoch_s=1_700_000_000))
        assert daemon.bus.ledger.head == 1
    assert asked == []


async def test_bad_calls_in_the_spool_are_recorded_once_and_leave_it(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir(mode=0o700)
    good = call(json.dumps(SESSION).encode(), "good", spooled_at_epoch_s=7)
    bad = [call(b"{nonsense", "bad", spooled_at_epoch_s=7), call(b"", "big", oversized=2_000_000, spooled_at_epoch_s=7)]
    (spool / "calls").write_bytes(b"".join(encode_call(one) + b"\n" for one in [*bad, good, bad[0]]))
    async with running_bus(backend="memory") as daemon:
        counters = await drain_spool(spool, calls_of(daemon).handle)
        found = await recorded(daemon)
    assert (counters.drained, counters.left, list(spool.iterdir())) == (3, False, [])
    assert [receipt["status"] for receipt in found] == ["failed", "failed", "observed", "observed"]
    assert all("spooled_late" in [warning["code"] for warning in receipt["warnings"]] for receipt in found)


async def test_a_flood_of_bad_calls_does_not_flood_the_ledger() -> None:
    clock = Clock()
    async with running_bus(backend="memory") as daemon:
        calls = calls_of(daemon, clock)
        with structlog.testing.capture_logs() as logs:
            for number in range(500):
                await calls.handle(call(call_id=f"c{number}"))
        assert daemon.bus.ledger.head == A_MINUTE
        assert calls.counters == CallCounters(unreadable=500, unrecorded=500 - A_MINUTE)
        await calls.handle(call(call_id="other", adapter_id="claude"))
        assert daemon.bus.ledger.head == A_MINUTE + 1, "another adapter's failures have their own limit"
        clock.now = 60.0
        await calls.handle(call(call_id="later"))
        assert daemon.bus.ledger.head == A_MINUTE + 2
    assert len(logs) < 12


def test_no_minute_has_more_failures_than_the_limit() -> None:
    clock = Clock()
    limit = FailureLimit(clock, a_minute=3)
    passed: list[float] = []
    for second in range(0, 600, 7):
        clock.now = float(second)
        passed += [clock.now] * limit.passes("codex")
    assert all(later - earlier >= 60 for earlier, later in zip(passed, passed[3:], strict=False))
    assert len(passed) > 20


async def test_an_adapter_that_nobody_knows_is_counted_and_not_recorded() -> None:
    async with running_bus(backend="memory") as daemon:
        calls = calls_of(daemon)
        with structlog.testing.capture_logs() as logs:
            assert await calls.handle(call(adapter_id="x" * 128)) == HookAnswer()
        assert daemon.bus.ledger.head == 0
    assert calls.counters == CallCounters(unknown_adapter=1, unknown_names=("x" * 64,))
    assert logs[0]["adapter"] == "x" * 64


async def test_an_adapter_with_a_manifest_and_no_code_has_its_calls_recorded_as_failed() -> None:
    async with running_bus(backend="memory") as daemon:
        calls = HookCalls(daemon.bus, {}, 1.0, Clock())
        assert await calls.handle(call(json.dumps(SESSION).encode())) == HookAnswer()
        (receipt,) = await recorded(daemon)
    assert (receipt["adapter_id"], receipt["telemetry_summary"]["reason"]) == ("codex", "unknown_adapter")


async def test_a_good_call_after_a_bad_one_is_recorded_and_answered() -> None:
    async with running_bus(backend="memory") as daemon:
        calls = calls_of(daemon)
        await calls.handle(call())
        await calls.handle(call(json.dumps(SESSION).encode(), "good"))
        found = await recorded(daemon)
    assert [receipt["status"] for receipt in found] == ["failed", "observed", "observed"]


async def test_a_ledger_that_takes_nothing_makes_the_hook_keep_its_bad_call_too() -> None:
    async with running_bus() as daemon:
        await daemon.bus.ledger.aclose()
        with pytest.raises(BrokerBusy):
            await calls_of(daemon).handle(call())
