"""`lifebus clients`: named consumers, how far they are, and their administration."""

from pathlib import Path

import anyio

import lifebus
from lifebus_contract.consumers import MAX_TRIES, ConsumerSettings
from support.command_line import Shell, broker_up


async def consume(runtime_dir: Path) -> None:
    """Leave two consumers behind: one with a dead letter and one that has seen nothing."""
    async with lifebus.connect("me", runtime_dir=runtime_dir) as bus:
        await bus.emit([lifebus.make_request("session.started", "codex", session=f"s{n}") for n in range(3)])
        async with bus.consume("mirror", ConsumerSettings(max_in_flight=1), since="start") as deliveries:
            async for delivery in deliveries:
                assert isinstance(delivery, lifebus.Delivery)
                if delivery.position > 1:
                    await delivery.ack()
                    break
                await delivery.nack(delay=0)
        async with bus.consume("other", since="start"):
            pass


def test_named_consumers_are_listed_reset_and_evicted(alone: Shell) -> None:
    with broker_up(alone):
        anyio.run(consume, alone.directory / "run")
        (mirror, other) = alone.call("clients", "--json").json
        assert (mirror["kind"], mirror["cursor"], mirror["dead"], mirror["lag"]) == ("cursor", "mirror", 1, 1)
        assert [one["lag"] for one in alone.call("clients", "lag", "--json").json] == [1, 3]
        assert alone.call("clients", "lag", "other", "--json").json == [other]
        text = alone.call("clients").out
        assert "mirror" in text
        assert "away" in text
        (letter,) = alone.call("clients", "dead", "mirror", "--json").lines
        assert (letter["tries"], letter["receipt"]["sequence"]) == (MAX_TRIES, 1)
        assert "session.started" in alone.call("clients", "dead", "mirror").out
        assert "no dead letters" in alone.call("clients", "dead", "other").err

        asked = alone.call("clients", "reset-cursor", "mirror", "--to", "start")
        assert (asked.code, asked.out) == (2, "")
        assert "--yes" in asked.err
        assert alone.call("clients", "lag", "mirror", "--json").json[0]["lag"] == 1
        assert alone.call("clients", "reset-cursor", "mirror", "--to", "start", "--yes", "--json").json["lag"] == 3
        assert "behind the head" in alone.call("clients", "reset-cursor", "mirror", "--to", "2", "--yes").out
        assert alone.call("clients", "reset-cursor", "mirror", "--to", "head", "--yes", "--json").json["lag"] == 0
        assert alone.call("clients", "reset-cursor", "mirror", "--to", "soon", "--yes").code == 2

        assert alone.call("clients", "remove", "mirror", "--json").code == 2
        assert alone.call("clients", "remove", "mirror", "--yes", "--json").json == {"evicted": "mirror"}
        gone = alone.call("clients", "remove", "mirror", "--yes")
        assert (gone.code, "no consumer `mirror`" in gone.err) == (1, True)
        assert [one["cursor"] for one in alone.call("clients", "--json").json] == ["other"]


def test_asking_first_takes_no_for_an_answer(alone: Shell) -> None:
    with broker_up(alone):
        anyio.run(consume, alone.directory / "run")
        refused = alone.on_terminal("clients", "remove", "mirror", types=b"n\n")
        assert (refused.code, "nothing was changed" in refused.out) == (1, True)
        agreed = alone.on_terminal("clients", "remove", "mirror", types=b"y\n")
        assert (agreed.code, "is forgotten" in agreed.out) == (0, True)
        assert [one["cursor"] for one in alone.call("clients", "--json").json] == ["other"]


def test_nobody_is_asked_about_a_name_that_there_is_not(bus: Shell) -> None:
    for words in (("remove", "nobody"), ("reset-cursor", "nobody", "--to", "start")):
        ran = bus.call("clients", *words)
        assert (ran.code, "there is no consumer `nobody`" in ran.err) == (1, True)
