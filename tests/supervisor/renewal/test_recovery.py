"""What a broker finds of renewals when it starts: unfinished ones are gone on with, missing receipts written once."""

from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

import lifebus
from lifebus_broker.ledger.factory import open_unkept
from lifebus_contract import CallbackRequest, FrameClass, FrameContext
from lifebus_supervisor.renewal.records import Continuation, ContinuationState
from lifebus_supervisor.renewal.store import open_store
from support.broker_process import until
from support.supervisor.continuations import pending, start
from support.supervisor.scripted import Renewing, ScriptedClient, failing, renewing

FAR = 4_000_000_000


def moment(event: str, session: str) -> CallbackRequest:
    frame = FrameContext(frame_id="t1", frame_class=FrameClass.TOP_LEVEL) if event.startswith("frame") else None
    return lifebus.make_request(event, "codex", session=session, frame=frame, metadata={"cwd": "/work"})


def record(payload_id: str = "pay_1") -> Continuation:
    return pending(
        payload_id,
        profile="codex-renewal",
        client_id="example",
        thread="t-1",
        expires_at=FAR,
        prepared_at=moment("frame.ended", "s1"),
    )


def left(directory: Path, state: ContinuationState) -> None:
    """Leave a store as a broker does that ends before it has written the receipts."""
    store = open_store(directory / "state")
    store.save(record())
    if state is not ContinuationState.PENDING:
        store.claim(start("s2", profile="codex-renewal"), "clm_1", moment("session.started", "s2"))
        (claimed,) = store.records()[0]
        if state is not ContinuationState.CLAIMED:
            store.finish(claimed, state, "why")


async def outcomes(on: Renewing) -> list[tuple[str, str | None]]:
    found = await on.receipts()
    return [
        (one.event.value, one.payload_receipts[0].payload_kind if one.payload_receipts else one.failure_class)
        for one in found
    ]


PREPARED = ("frame.ended", "renewal.reset_prepare")
USED = ("session.started", "renewal.continuation")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (ContinuationState.PENDING, [PREPARED]),
        (ContinuationState.CLAIMED, [PREPARED, USED]),
        (ContinuationState.CONSUMED, [PREPARED, USED]),
        (ContinuationState.REJECTED, [PREPARED, ("session.started", "payload_rejected")]),
    ],
)
async def test_receipts_that_a_crash_left_unwritten_are_written_once(
    tmp_path: Path, state: ContinuationState, expected: list[tuple[str, str]]
) -> None:
    async with aclosing(await open_unkept()) as ledger:
        left(tmp_path, state)
        for _ in range(3):
            async with renewing(tmp_path, ledger=ledger) as on:
                await until(_settled(on))
                assert await outcomes(on) == expected


def _settled(on: Renewing) -> Callable[[], bool]:
    """Whether recovery has nothing more to do: the moments of the record are forgotten, or it may be claimed."""

    def settled() -> bool:
        (one,) = on.flow.store.records()[0]
        return one.state is not ContinuationState.CLAIMED and one.prepared_at is None

    return settled


async def test_receipts_that_are_in_the_ledger_are_not_written_again(tmp_path: Path) -> None:
    async with aclosing(await open_unkept()) as ledger:
        async with renewing(tmp_path, ledger=ledger) as on:
            await on.call({"hook_event_name": "Stop", "session_id": "s1", "turn_id": "t1", "cwd": "/work"})
            await until(lambda: on.states == ["pending"])
            await on.call({"hook_event_name": "SessionStart", "session_id": "s2", "source": "startup", "cwd": "/work"})
            await until(lambda: on.states == ["consumed"] and on.bus.bus.dispatches == 0)
            before = await outcomes(on)
        assert before == [PREPARED, USED]
        async with renewing(tmp_path, ledger=ledger) as on:
            await until(_settled(on))
            assert await outcomes(on) == before


async def test_a_use_that_fails_again_and_again_is_told_each_time_and_ends(tmp_path: Path) -> None:
    async with aclosing(await open_unkept()) as ledger:
        client = ScriptedClient()
        left(tmp_path, ContinuationState.CLAIMED)
        client.fails["consume"] = failing(7)
        for times in range(1, 5):
            async with renewing(tmp_path, client, ledger) as on:
                records = on.flow.store.records
                await until(lambda: len(client.asked) == times and records()[0][0].handed_over == times + 1)  # noqa: B023
                await until(lambda: on.bus.bus.ledger.head == times + 1)  # noqa: B023
        async with renewing(tmp_path, client, ledger) as on:
            await until(lambda: on.bus.bus.ledger.head == 6)
            assert [failure for _, failure in await outcomes(on)] == [
                "renewal.reset_prepare",
                *["payload_rejected"] * 5,
            ]
        assert len({question["claim_id"] for question in client.asked}) == 1
        assert len(client.asked) == 4


async def test_a_broker_that_stops_in_the_middle_says_so_and_the_next_one_completes_the_use(tmp_path: Path) -> None:
    async with aclosing(await open_unkept()) as ledger:
        client = ScriptedClient()
        async with renewing(tmp_path, client, ledger) as on:
            await on.call({"hook_event_name": "Stop", "session_id": "s1", "turn_id": "t1", "cwd": "/work"})
            await until(lambda: on.states == ["pending"] and on.bus.bus.dispatches == 0)
            client.holds["consume"] = anyio.Event()
            await on.call({"hook_event_name": "SessionStart", "session_id": "s2", "source": "startup", "cwd": "/work"})
            await until(lambda: client.steps[-1] == "consume")
        client.holds.clear()
        async with renewing(tmp_path, client, ledger) as on:
            await until(_settled(on))
            assert await outcomes(on) == [PREPARED, ("session.started", "transport_error"), USED]
            assert on.states == ["consumed"]
        assert len({question["claim_id"] for question in client.asked if question["step"] == "consume"}) == 1


async def test_a_preparation_that_fails_and_then_works_is_told_both_times(tmp_path: Path) -> None:
    async with aclosing(await open_unkept()) as ledger:
        client = ScriptedClient()
        store = open_store(tmp_path / "state")
        store.begin(
            Continuation(
                payload_id="pay_1", profile="codex-renewal", client_id="example", adapter_id="codex", session="s1",
                cwd="/work", state=ContinuationState.PREPARING, created_at=1, expires_at=FAR,
                prepared_at=moment("frame.ended", "s1"),
            )
        )  # fmt: skip
        client.fails["prepare"] = failing()
        async with renewing(tmp_path, client, ledger) as on:
            await until(lambda: on.bus.bus.ledger.head == 1)
        client.fails.clear()
        async with renewing(tmp_path, client, ledger) as on:
            await until(lambda: on.bus.bus.ledger.head == 2)
            assert await outcomes(on) == [("frame.ended", "payload_rejected"), PREPARED]
            assert on.states == ["pending"]


async def test_records_of_a_profile_that_is_no_longer_configured_are_left_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state")
    store.save(pending("pay_9", profile="codex-other", expires_at=FAR, prepared_at=moment("frame.ended", "s1")))
    async with renewing(tmp_path) as on:
        await on.start("s2")
        assert (on.client.asked, on.states) == ([], ["pending"])
