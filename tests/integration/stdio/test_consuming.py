"""Named subscriptions of `lifebus dev stdio`: the broker remembers the place, what is not acknowledged comes again."""

import asyncio
import signal
from collections.abc import Iterator
from typing import Any, cast

import lifebus
from lifebus._internal.view import Gap, Position
from lifebus.consumer import Deliveries, Delivery
from lifebus.stdio.sources import ConsumerSource
from support.integration.following import emit as emit_many
from support.integration.stdio_peers import Message, near_peer, raw_peer
from support.running import connected, running_bus

NAMED = {"name": "sync", "since": "start"}


def attempts(items: list[Message]) -> list[tuple[int, int]]:
    """Position and number of the try of each item."""
    return [(int(item["cursor"].partition(":")[2]), item["attempt"]) for item in items]


async def test_what_was_acknowledged_never_comes_again_even_if_the_peer_is_killed() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emit_many(bus, *["s1"] * 5)
        async with raw_peer(daemon) as peer:
            opened = await peer.ask("subscribe", NAMED)
            items = await peer.items(1, 5)
            acked = await peer.ask("ack", {"subscription": 1, "cursors": [item["cursor"] for item in items[:3]]})
            peer.process.send_signal(signal.SIGKILL)
            await peer.ended()
        async with near_peer(daemon) as peer:
            await peer.ask("subscribe", {"name": "sync"})
            again = await peer.items(1, 2)
            await peer.ask("ack", {"subscription": 1, "cursors": [item["cursor"] for item in again]})
            (info,) = (await peer.ask("cursors"))["ok"]

    assert opened["ok"] == {"subscription": 1, "name": "sync"}
    assert attempts(items) == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]
    assert acked["ok"] == {}
    assert attempts(again) == [(4, 2), (5, 2)]
    assert (info["cursor"], info["position"], info["lag"]) == ("sync", 5, 0)


async def test_what_is_nacked_comes_again_and_what_a_leaving_peer_got_counts_as_tried() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, near_peer(daemon) as peer:
        await emit_many(bus, "s1", "s2")
        settings = {"sessions": [["codex", "s2"]]}
        await peer.ask("subscribe", NAMED | {"settings": settings})
        (first,) = await peer.items(1, 1)
        await peer.ask("nack", {"subscription": 1, "cursors": [first["cursor"]], "delay_ms": 0})
        (second,) = await peer.items(1, 1)
        left = await peer.ask("unsubscribe", {"subscription": 1})
        await peer.ask("subscribe", NAMED | {"settings": settings})
        (third,) = await peer.items(2, 1)

    assert attempts([first, second, third]) == [(2, 1), (2, 2), (2, 3)]
    assert left["ok"] == {"name": "sync"}


async def test_a_named_subscription_without_settings_takes_those_of_the_name() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, near_peer(daemon) as peer:
        await emit_many(bus, "s1", "s2", "s1", "s2")
        settings = {"sessions": [["codex", "s2"]], "max_in_flight": 1}
        await peer.ask("subscribe", NAMED | {"settings": settings})
        await peer.items(1, 1)
        await peer.ask("unsubscribe", {"subscription": 1})
        await peer.ask("subscribe", {"name": "sync"})
        again = await peer.items(2, 1)
        (info,) = (await peer.ask("cursors"))["ok"]
        await peer.ask("unsubscribe", {"subscription": 2})
        other = await peer.ask("subscribe", {"name": "sync", "settings": {"sessions": [["codex", "s1"]]}})

    assert attempts(again) == [(2, 2)]
    assert (info["settings"], info["in_flight"]) == (settings, 1)
    assert other["refused"]["code"] == "other_filter"
    assert "pass the same filter or none" in other["refused"]["detail"]


async def test_an_ack_settles_what_the_subscription_that_it_names_was_given_and_no_other() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, near_peer(daemon) as peer:
        await emit_many(bus, "s1")
        for name in ("a", "b"):
            await peer.ask("subscribe", {"name": name, "since": "start"})
        (first,), (second,) = await peer.items(1, 1), await peer.items(2, 1)
        beyond = first["cursor"].replace(":1", ":7")
        answers = [
            await peer.ask("ack", {"subscription": 2, "cursors": [second["cursor"]]}),
            await peer.ask("ack", {"subscription": 1, "cursors": [beyond]}),
        ]
        states = (await peer.ask("cursors"))["ok"]

    assert first["cursor"] == second["cursor"]
    assert next(iter(first)) == "subscription"
    assert [answer["ok"] for answer in answers] == [{}, {}]
    assert [(one["cursor"], one["position"], one["in_flight"]) for one in states] == [("a", 0, 1), ("b", 1, 0)]


async def test_the_newest_peer_consumes_a_name_and_the_other_is_refused() -> None:
    async with (
        running_bus() as daemon,
        connected(daemon) as bus,
        near_peer(daemon) as one,
        near_peer(daemon) as other,
    ):
        await one.ask("subscribe", NAMED)
        await other.ask("subscribe", NAMED)
        (end,) = await one.items(1, 1)
        await emit_many(bus, "s1")
        (item,) = await other.items(1, 1)

    assert (end["name"], end["refused"]["code"]) == ("sync", "replaced")
    assert item["attempt"] == 1


async def test_what_cannot_be_acknowledged_is_refused_by_name() -> None:
    place = "0" * 32 + ":1"
    async with running_bus() as daemon, near_peer(daemon) as peer:
        await peer.ask("subscribe")
        codes = [
            (await peer.ask(verb, body))["refused"]["code"]
            for verb, body in (
                ("ack", {"subscription": 1, "cursors": [place]}),
                ("nack", {"subscription": 2, "cursors": [place]}),
                ("ack", {"subscription": 1, "cursors": []}),
                ("ack", {"subscription": 1, "cursors": ["1"]}),
                ("ack", {"cursor": "nobody", "epoch": "0" * 32, "positions": [1]}),
            )
        ]
    assert codes == ["no_name", "no_such_subscription", "against_contract", "against_contract", "detached"]


async def test_a_peer_may_consume_as_on_the_wire_and_have_the_broker_wait_longer_than_its_own_timeout() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, near_peer(daemon, seconds=1) as peer:
        await peer.ask("consume", {"cursor": "own", "client_id": "editor"})
        empty = await peer.ask("fetch", {"cursor": "own", "wait_ms": 1_300})
        await emit_many(bus, "s1")
        found = (await peer.ask("fetch", {"cursor": "own", "wait_ms": 1_000}))["ok"]
        position, sequence, attempt, receipt = found["deliveries"][0]
        acked = await peer.ask("ack", {"cursor": "own", "epoch": found["epoch"], "positions": [position]})
        others = [await peer.ask(verb, {"cursor": "own"}) for verb in ("letters", "reset", "release", "evict")]

    assert empty["ok"].get("deliveries") is None
    assert (position, sequence, attempt, receipt["harness_session_id"]) == (1, 1, 1, "s1")
    assert acked["ok"] == {"settled": 1}
    assert others[0]["ok"] == {"letters": [], "complete": True}
    assert others[1]["ok"]["position"] == 1
    assert [answer["ok"] for answer in others[2:]] == [{}, {}]


class ScriptedDeliveries:
    """What a consumer of the client library hands out."""

    def __init__(self, *items: Any) -> None:
        self.items: Iterator[Any] = iter(items)
        self.acked: list[Position] = []
        self.skipped = 0

    async def skip_gap(self) -> None:
        self.skipped += 1

    async def __anext__(self) -> Any:
        return next(self.items)

    async def ack(self, places: Any) -> None:
        self.acked += places


async def test_after_a_gap_nothing_comes_until_it_is_acknowledged() -> None:
    gap = Gap(epoch="e", after=3, until=7, reason="pruned")
    deliveries = ScriptedDeliveries(gap, "receipt")
    consumed = ConsumerSource("sync", cast("Deliveries[Delivery | Gap]", deliveries), 5.0)
    assert await anext(consumed) is gap
    assert consumed.keys(gap)["cursor"] == "e:7"
    more = asyncio.ensure_future(anext(consumed))
    await asyncio.sleep(0)
    await consumed.ack([Position("e", 2)])
    assert not more.done()
    assert deliveries.skipped == 0
    await consumed.ack([Position("e", 7)])
    assert cast("object", await more) == "receipt"
    assert deliveries.acked == [Position("e", 2)]
    assert deliveries.skipped == 1


def test_a_gap_without_an_end_is_acknowledged_by_its_beginning() -> None:
    gap = lifebus.Gap(epoch="e", after=3, until=None, reason="epoch_changed")
    consumed = ConsumerSource("sync", cast("Deliveries[Delivery | Gap]", ScriptedDeliveries()), 5.0)
    assert consumed.keys(gap) == {"cursor": "e:3", "gap": gap}
