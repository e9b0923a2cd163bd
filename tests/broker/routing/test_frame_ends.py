"""A frame has one end, whoever reports it, in any order of openings, repetitions, refusals and restarts."""

import os
from typing import Any

import anyio
import pytest

from lifebus_broker.ports import Query
from lifebus_broker.routing import frame_ends
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.dispatch import EmissionResult
from lifebus_contract import Emission, IdSource
from lifebus_contract.codec import decode_receipt
from support.bus_box import answering, bus_box, emission

OPENED, ENDED = "frame.opened", "frame.ended"


def of_frame(event: str, key: str, frame: str = "t1", **fields: Any) -> Emission:
    context = {"frame_id": frame, "frame_class": "top_level"}
    named = {"event_id": f"evt_{key}", "invocation_id": f"inv_{key}", "idempotency_key": key}
    return emission(event=event, frame_context=context, **(named | fields))


async def emit(bus: EventBus, *emissions: Emission) -> list[str | None]:
    """Emit them at once; return the code of each refusal, None where there was none."""
    return [_code(one) for one in await bus.emit("somebody", emissions)]


def _code(result: EmissionResult) -> str | None:
    return None if result.refusal is None else result.refusal.code


async def ends(bus: EventBus) -> int:
    page = await bus.ledger.read(Query(limit=1_000))
    return len({(one.event_id, one.invocation_id) for one in map(_receipt, page.stored) if one.event == ENDED})


def _receipt(stored: Any) -> Any:
    return decode_receipt(stored.receipt)


def restarted(bus: EventBus, tasks: anyio.abc.TaskGroup) -> EventBus:
    ids = IdSource(lambda: 1, os.urandom)
    registry, ledger, fanout = bus.registry, bus.ledger, bus.fanout
    return EventBus(registry=registry, ledger=ledger, fanout=fanout, ids=ids, clock=lambda: 1, tasks=tasks)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("served", [False, True])
async def test_an_opening_that_comes_again_does_not_let_its_frame_end_again(restart: bool, served: bool) -> None:
    async with bus_box() as bus, anyio.create_task_group() as tasks:
        assert await emit(bus, of_frame(OPENED, "o"), of_frame(ENDED, "e")) == [None, None]
        after = restarted(bus, tasks) if restart else bus
        if served:
            after.register("client", [OPENED, ENDED], answering())  # type: ignore[list-item]
        assert await emit(after, of_frame(OPENED, "o")) == [None]
        assert await emit(after, of_frame(ENDED, "other")) == ["frame_ended"]
        assert await ends(bus) == 1


async def test_a_repeated_end_with_another_content_does_not_give_the_first_one_back() -> None:
    async with bus_box() as bus:
        await emit(bus, of_frame(OPENED, "o"), of_frame(ENDED, "e"))
        (conflict,) = await emit(bus, of_frame(ENDED, "e", harness_task_id="another"))
        assert conflict is not None
        assert await emit(bus, of_frame(ENDED, "other")) == ["frame_ended"]


async def test_of_many_ends_at_once_after_a_restart_one_is_recorded() -> None:
    async with bus_box() as bus, anyio.create_task_group() as tasks:
        await emit(bus, of_frame(OPENED, "o"))
        after = restarted(bus, tasks)
        codes: list[str | None] = []

        async def end(number: int) -> None:
            for _ in range(number % 3):
                await anyio.lowlevel.checkpoint()
            codes.extend(await emit(after, of_frame(ENDED, f"e{number}")))

        async with anyio.create_task_group() as many:
            for number in range(12):
                many.start_soon(end, number)
        assert sorted(codes, key=str) == [None, *["frame_ended"] * 11]
        assert await ends(bus) == 1


async def test_a_frame_that_is_forgotten_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_ends, "MAX_FRAMES", 4)
    async with bus_box() as bus:
        for number in range(8):
            frame = f"t{number}"
            assert await emit(bus, of_frame(OPENED, f"o{number}", frame)) == [None]
            assert await emit(bus, of_frame(ENDED, f"e{number}", frame)) == [None]
        again = [await emit(bus, of_frame(ENDED, f"again{number}", f"t{number}")) for number in range(8)]
        assert again == [["frame_ended"]] * 8


async def test_an_end_that_comes_again_does_not_end_the_frame_that_was_opened_since() -> None:
    async with bus_box() as bus:
        for event, key in (
            ("frame.opened", "o1"),
            ("frame.ended", "e1"),
            ("frame.opened", "o2"),
            ("frame.ended", "e1"),
        ):
            assert await emit(bus, of_frame(event, key)) == [None]
        assert await emit(bus, of_frame("frame.ended", "e2")) == [None]
        assert await emit(bus, of_frame("frame.ended", "e3")) == ["frame_ended"]
        assert await ends(bus) == 2


async def test_a_frame_that_really_opens_again_ends_again() -> None:
    async with bus_box() as bus:
        await emit(bus, of_frame(OPENED, "o"), of_frame(ENDED, "e"))
        assert await emit(bus, of_frame(OPENED, "o2"), of_frame(ENDED, "e2")) == [None, None]
        assert await emit(bus, of_frame(ENDED, "e3")) == ["frame_ended"]


@pytest.mark.parametrize("rivals", [False, True])
async def test_a_dispatch_that_breaks_leaves_no_claim_behind(rivals: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bus_box() as bus:
        bus.register("client", [ENDED], answering())  # type: ignore[list-item]
        await emit(bus, of_frame(OPENED, "o"))
        find = bus.ledger.find

        async def break_off(scopes: Any) -> Any:
            if rivals:
                monkeypatch.setattr(bus.ledger, "find", find)
                (stored,) = await bus.emit("another", [of_frame(ENDED, "another")])
                assert stored.refusal is not None  # the claim is not given back while its dispatch is under way
            raise RuntimeError("a defect")

        monkeypatch.setattr(bus.ledger, "find", break_off)
        (broken,) = await bus.emit("somebody", [of_frame(ENDED, "e")])
        assert broken.refusal is not None
        monkeypatch.setattr(bus.ledger, "find", find)
        assert await emit(bus, of_frame(ENDED, "other")) == [None]
        assert await emit(bus, of_frame(ENDED, "third")) == ["frame_ended"]
        assert await ends(bus) == 1
