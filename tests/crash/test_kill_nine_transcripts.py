"""Kill -9 of the broker while app-servers talk: every piece of text is in its transcript, once and in order.

The oracle is what the reporters sent: they count their pieces themselves, and join them without any code of ours.
"""

import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

import lifebus
from lifebus.signals import SignalReceived
from lifebus_contract import LifebusError
from lifebus_contract.transcripts import TranscriptEntry
from lifebus_transports.messages.signals import Observation, Observe, ObserveAnswer
from support.broker_process import BrokerProcess, broker_process, until
from support.effort import effort
from support.integration.observing import signal
from support.patience import PATIENCE_S
from support.running import short_directory
from support.transcripts.boxes import until_read

CYCLES = effort(4, 150)
PIECES_A_CYCLE = (30, 200)
THREADS = ("t1", "t2")
PIECES_OF_AN_ITEM = 60


class Talker:
    """One app-server through all the broker's lives: what it does not know the fate of, it sends again."""

    def __init__(self, thread: str, chance: random.Random) -> None:
        self.thread = thread
        self.sent = 0
        self._chance = chance
        self._pending: list[Observation] = []

    @property
    def expected(self) -> dict[str, str]:
        """What each item has to say, joined from the numbers of its pieces."""
        said: dict[str, str] = {}
        for number in range(self.sent):
            item, place = divmod(number, PIECES_OF_AN_ITEM)
            said[f"i{item}"] = said.get(f"i{item}", "") + (f"{number};" if place else "")
        return said

    async def talk(self, bus: lifebus.Bus) -> None:
        """Send one batch until it is answered, or until the broker is gone."""
        if not self._pending:
            size = self._chance.randint(1, 12)
            self._pending = [self._signal(self.sent + step) for step in range(size)]
        body = Observe(
            client_id="test",
            adapter_id="codex",
            origin=self.thread,
            first=self.sent + 1,
            observations=tuple(self._pending),
        )
        answer = await bus._connection.ask("observe", body, ObserveAnswer, timeout=PATIENCE_S)
        self.sent, self._pending = answer.through, []

    def _signal(self, number: int) -> Observation:
        item, place = divmod(number, PIECES_OF_AN_ITEM)
        context = {"threadId": self.thread, "turnId": "u"}
        if not place:
            params = {"item": {"type": "agentMessage", "id": f"i{item}", "text": ""}, "startedAtMs": number}
            event = "app_server.item.started"
            return signal(self.thread, event=event, method="item/started", context=context, params=params)
        return signal(self.thread, context=context, params={"itemId": f"i{item}", "delta": f"{number};"})


class Follower:
    """Follows the transcripts through every restart, and keeps what their events said."""

    def __init__(self) -> None:
        self.seen: list[SignalReceived] = []
        self.gaps: list[lifebus.Gap] = []

    async def follow(self, broker: BrokerProcess) -> None:
        async with lifebus.connect("follower", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
            async for item in bus.signals(adapter="lifebus", since="start"):
                if isinstance(item, lifebus.Gap):
                    self.gaps.append(item)
                else:
                    self.seen.append(item)

    def told(self) -> dict[str, dict[str, str]]:
        """What the events of each thread make of its entries; each content goes on from the one before it."""
        told: dict[str, dict[str, str]] = {}
        for one in self.seen:
            payload = one.envelope["payload"]
            said = told.setdefault(payload["threadId"], {})
            content = payload["entry"]["content"]
            assert content.startswith(said.get(payload["messageId"], ""))
            said[payload["messageId"]] = content
        return told


async def cycle(broker: BrokerProcess, talkers: list[Talker], chance: random.Random) -> None:
    """Let everybody talk until a number of batches is answered, and then, within a round of filling, kill."""
    wanted, enough = chance.randint(*PIECES_A_CYCLE) // 6, anyio.Event()

    async def talk(bus: lifebus.Bus, talker: Talker) -> None:
        nonlocal wanted
        with suppress(LifebusError):  # the broker was killed
            while True:
                await talker.talk(bus)
                wanted -= 1
                if wanted <= 0:
                    enough.set()

    async with (
        lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        anyio.create_task_group() as tasks,
    ):
        for talker in talkers:
            tasks.start_soon(talk, bus, talker)
        await enough.wait()
        with anyio.move_on_after(chance.uniform(0, 0.15)):
            await anyio.sleep_forever()
        await broker.kill()
        tasks.cancel_scope.cancel()


async def until_filled(bus: lifebus.Bus, talker: Talker) -> dict[str, str]:
    """What a transcript says once it has as much text as was sent."""
    wanted = sum(map(len, talker.expected.values()))

    def is_whole(entries: list[TranscriptEntry]) -> bool:
        return sum(len(one.content) for one in entries) >= wanted and len(entries) >= len(talker.expected)

    entries = await until_read(lambda: bus.transcripts.entries(talker.thread), is_whole)
    return {one.message_id: one.content for one in entries}


async def kill_again_and_again(
    directory: Path, talkers: list[Talker], follower: Follower, chance: random.Random
) -> dict[str, dict[str, str]]:
    async with anyio.create_task_group() as tasks:
        for number in range(CYCLES):
            async with broker_process(directory) as broker:
                if number == 0:
                    tasks.start_soon(follower.follow, broker)
                await cycle(broker, talkers, chance)
        async with (
            broker_process(directory) as broker,
            lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            for talker in talkers:
                await talker.talk(bus)
            found = {talker.thread: await until_filled(bus, talker) for talker in talkers}
            await until(lambda: follower.told() == found)
        tasks.cancel_scope.cancel()
    return found


@pytest.mark.slow
async def test_kills_lose_no_piece_of_a_transcript_and_double_none(
    record_property: Callable[[str, object], None],
) -> None:
    seed = int(os.environ.get("LIFEBUS_TEST_SEED") or random.randrange(2**32))
    print(f"seed {seed}")  # noqa: T201  shown when it fails; set LIFEBUS_TEST_SEED to repeat it
    chance = random.Random(seed)
    talkers, follower = [Talker(thread, chance) for thread in THREADS], Follower()
    with short_directory() as directory:
        found = await kill_again_and_again(directory, talkers, follower, chance)
    assert follower.gaps == []
    assert found == {talker.thread: talker.expected for talker in talkers}
    for thread in THREADS:
        numbers = [one.sequence for one in follower.seen if one.thread == f"transcript/{thread}"]
        assert numbers == list(range(1, len(numbers) + 1))
    record_property("kills", CYCLES)
    record_property("pieces", sum(talker.sent for talker in talkers))
