"""What is no longer kept is stood for by a state: exactly what was so where the receipts begin, and nothing between."""

from typing import Any

import anyio.to_thread
import msgspec
import pytest

import lifebus
import lifebus.blocking
from lifebus_contract import FrameClass, FrameContext, InvalidRequest, Receipt
from lifebus_supervisor.api import state as states
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.messages.state import StatePage, StateQuery
from support.integration.consuming import take as take_deliveries
from support.integration.consuming import take_gap
from support.integration.following import drain, emit, take
from support.running import connected, running_bus

MINE = ("codex", "s1")


async def pruned(daemon: Daemon, floor: int) -> None:
    """Drop receipts as retention does."""
    assert daemon.follower is not None
    base = await daemon.follower.dump_at(floor)
    assert await daemon.bus.ledger.prune(floor, base) == floor


async def record_seven(bus: lifebus.Bus) -> None:
    """Record seven receipts: a session with an open frame, one that is over, and one of another adapter."""
    opened = FrameContext(frame_id="f1", frame_class=FrameClass.TOP_LEVEL)
    for event, adapter, session, frame in (
        ("session.started", "codex", "s1", None),
        ("session.started", "codex", "over", None),
        ("frame.opened", "codex", "s1", opened),
        ("session.ended", "codex", "over", None),
        ("session.started", "claude", "s2", None),
        ("frame.ended", "codex", "s1", opened),
        ("session.ended", "codex", "s1", None),
    ):
        await bus.emit(lifebus.make_request(event, adapter, session=session, frame=frame))


async def test_a_state_holds_the_sessions_and_frames_that_were_open_where_the_receipts_begin() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        nothing = await bus.state()
        assert (nothing.position, nothing.sessions, nothing.pending) == (0, (), None)
        await record_seven(bus)
        await pruned(daemon, 5)
        state = await bus.state()
        assert (state.epoch, state.position) == (daemon.bus.ledger.epoch, 5)
        live = {(one.adapter_id, one.harness_session_id): one for one in state.sessions}
        assert set(live) == {MINE, ("claude", "s2")}
        assert (live[MINE].sequence, live[MINE].last_position) == (2, 3)
        assert [frame.frame_id for frame in live[MINE].frames] == ["f1"]
        assert state.pending is not None
        assert [one["frame_id"] for one in state.pending["PENDING_ROLL"]] == ["f1"]
        assert msgspec.json.decode(state.raw)["position"] == 5
        rest = await drain(bus.receipts(since=state.cursor, until_head=True))
        assert [item.event.value for item in rest if isinstance(item, Receipt)] == ["frame.ended", "session.ended"]
        assert len(rest) == 2


@pytest.mark.parametrize("session", [None, MINE], ids=["whole ledger", "one session"])
async def test_a_gap_names_its_state_and_following_goes_on_exactly_after_it(session: tuple[str, str] | None) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await record_seven(bus)
        await pruned(daemon, 3)
        receipts = bus.receipts(session=session, since="start", gaps="yield")
        (gap,) = await take(receipts, 1)
        assert gap == lifebus.Gap(epoch=daemon.bus.ledger.epoch, after=0, until=3, reason="pruned", state_at=3)
        await pruned(daemon, 5)
        state = await receipts.state()
        assert state.position == 5, "what was dropped since the gap was told is in the state as well"
        assert receipts.cursor == state.cursor
        assert [item.event.value for item in await take(receipts, 2) if isinstance(item, Receipt)] == [
            "frame.ended",
            "session.ended",
        ]
        assert (await receipts.state()).position == 5
        await emit(bus, "s1")
        (newest,) = await take(receipts, 1)
        assert isinstance(newest, Receipt), "a state does not lead back"
        assert newest.sequence == 5


async def test_a_named_consumer_gets_the_state_and_what_comes_after_it() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await record_seven(bus)
        async with bus.consume("n", since="start"):
            pass
        await pruned(daemon, 3)
        async with bus.consume("n", gaps="yield") as deliveries:
            assert (await take_gap(deliveries)).state_at == 3
            await pruned(daemon, 5)
            assert (await deliveries.state()).position == 5
            assert [one.position for one in await take_deliveries(deliveries, 2)] == [6, 7]


async def test_scripts_without_an_event_loop_get_the_state_too() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await record_seven(bus)
        async with bus.consume("n", since="start"):
            pass
        await pruned(daemon, 5)

        def script() -> None:
            with lifebus.blocking.connect(runtime_dir=daemon.settings.runtime_dir) as mine:
                assert mine.state().position == 5
                receipts = mine.receipts(since="start", gaps="yield")
                assert isinstance(next(receipts), lifebus.Gap)
                assert receipts.state().position == 5
                assert isinstance(next(receipts), Receipt)
                with mine.consume("n", gaps="yield") as deliveries:
                    assert isinstance(next(deliveries), lifebus.Gap)
                    assert deliveries.state().position == 5

        await anyio.to_thread.run_sync(script)


async def test_a_state_that_moves_on_while_it_is_read_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "STATE_PIECE", 100)
    monkeypatch.setattr(states, "_KEPT", 1)
    async with running_bus() as daemon, connected(daemon) as bus, connected(daemon) as other:
        await record_seven(bus)
        await pruned(daemon, 3)
        asked: list[StateQuery] = []
        ask = bus._connection.ask

        async def meddle(verb: str, body: StateQuery, answer: type[StatePage], **patience: Any) -> StatePage:
            asked.append(body)
            if len(asked) == 3:
                await pruned(daemon, 5)
                await other.state()
            return await ask(verb, body, answer, **patience)

        monkeypatch.setattr(bus._connection, "ask", meddle)
        state = await bus.state()
        assert state.position == 5
        assert [body.position for body in asked[:4]] == [None, 3, 3, None]


async def test_a_ledger_that_is_not_durable_keeps_no_state() -> None:
    async with running_bus(backend="memory") as daemon, connected(daemon) as bus:
        await emit(bus, "s1", "s1")
        await daemon.bus.ledger.prune(1, b"")
        (gap,) = await take(bus.receipts(since="start", gaps="yield"), 1)
        assert isinstance(gap, lifebus.Gap)
        assert gap.state_at is None
        with pytest.raises(InvalidRequest, match="keeps no state"):
            await bus.state()


def test_a_piece_of_a_state_ends_between_two_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "aé𝄞b" * 9
    for size in range(4, 12):
        monkeypatch.setattr(states, "STATE_PIECE", size)
        pieces, raw = list[bytes](), text.encode()
        while sum(map(len, pieces)) < len(raw):
            pieces.append(states._piece(raw, sum(map(len, pieces))))
        assert "".join(piece.decode() for piece in pieces) == text
