"""Bit rot: whichever bit of a ledger's files flips, it is noticed, or nothing that can be read has changed."""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import Query
from lifebus_contract import InternalError, LifebusError
from support.crash.rotting import FLOOR, SESSIONS, copy_ledger, everything_in, findings, flipped, write_ledger
from support.effort import TORTURE, effort
from support.receipts import append, entry

Sound = tuple[Path, list[Any]]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """A ledger that was closed in order, and everything in it."""
    path = tmp_path_factory.mktemp("closed") / "ledger.db"
    asyncio.run(write_ledger(path))
    return path, everything_in(path)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """A ledger that was not closed: most of it is in the write-ahead log."""
    path = tmp_path_factory.mktemp("killed") / "ledger.db"
    asyncio.run(write_ledger(path.with_name("live.db"), path))
    return path, everything_in(path)


SEED = int(time.time()) // 86_400 if TORTURE else 11
"""Which bits: always the same ones in the suite, others on every day of torture, and so with the days all of them."""


def places(size: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield so many bytes of a file, each with one of its bits."""
    chance = random.Random(SEED)
    return ((place, chance.randrange(8)) for place in chance.sample(range(size), min(size, count)))


def slipped(sound: Sound, file: Path, count: int) -> list[tuple[int, int]]:
    """Return the bits of a file whose flips neither are noticed nor leave everything as it was."""
    path, before = sound
    assert findings(path) == []
    found = [
        (place, bit)
        for place, bit in places(written(file), count)
        if not noticed_or_harmless(path, before, file, place, bit)
    ]
    assert findings(path) == [], "looking changes nothing"
    return found


def written(file: Path) -> int:
    """Return how many bytes of a file were written, without the room behind the newest frame of a log."""
    return len(file.read_bytes().rstrip(b"\0"))


def noticed_or_harmless(path: Path, before: list[Any], file: Path, place: int, bit: int) -> bool:
    with flipped(file, place, bit):
        return bool(findings(path)) or everything_in(path) == before


def test_a_flipped_bit_of_the_database_is_noticed_or_harmless(closed: Sound) -> None:
    assert slipped(closed, closed[0], effort(120, 20_000)) == []


def test_a_flipped_bit_of_the_write_ahead_log_is_noticed(killed: Sound) -> None:
    assert slipped(killed, Path(f"{killed[0]}-wal"), effort(120, 20_000)) == []


def test_a_flipped_bit_of_the_database_beside_its_log_is_noticed_or_harmless(killed: Sound) -> None:
    assert slipped(killed, killed[0], effort(60, 20_000)) == []


def test_a_flipped_bit_of_the_witness_never_accuses_a_sound_ledger(closed: Sound) -> None:
    assert slipped(closed, Path(f"{closed[0]}-witness"), effort(40, 4096)) == []


async def ask_for_everything(ledger: SqliteLedger) -> None:
    """Ask whatever a broker asks; each question is answered, or refused like any other."""
    questions: list[Callable[[], Awaitable[object]]] = [
        *[partial(ledger.read, query) for query in (Query(after=FLOOR), Query(), Query(since_epoch_s=1))],
        *[partial(ledger.read, Query(after=FLOOR, session=place)) for place in SESSIONS],
        lambda: ledger.find([("alice", "codex", f"k{n:06d}") for n in range(172)]),
        ledger.sessions,
        ledger.journal.streams,
        lambda: ledger.journal.read("cursor/a"),
        lambda: append(ledger, [entry(900, key="k000900"), entry(901, harness_session_id="s2")]),
    ]
    for ask in questions:
        with contextlib.suppress(LifebusError, AssertionError):  # `append` asserts that it was not refused
            await ask()


async def meet(copy: Path, rotten: Path) -> bool:
    """Open the ledger as a broker does; return whether it was refused, and make sure that it was in words."""
    before = rotten.read_bytes()  # noqa: ASYNC240  a test may wait for a file
    try:
        ledger = await SqliteLedger.open(copy)
    except InternalError as refusal:
        was_left = rotten.exists() and rotten.read_bytes() == before  # noqa: ASYNC240
        return was_left and refusal.code in ("ledger_damaged", "ledger_failed", "ledger_format")
    await ask_for_everything(ledger)
    await ledger.aclose()
    return False


@pytest.mark.parametrize(("which", "file"), [("closed", ""), ("killed", "-wal")])
def test_a_broker_refuses_a_rotten_ledger_in_words_and_leaves_it_alone(
    tmp_path: Path, which: str, file: str, request: pytest.FixtureRequest
) -> None:
    sound: Path = request.getfixturevalue(which)[0]
    copy, size = tmp_path / "ledger.db", written(Path(f"{sound}{file}"))
    refused = 0
    for place, bit in places(size, effort(25, 2_000)):
        for each in tmp_path.glob("ledger.db*"):
            each.unlink()
        copy_ledger(sound, copy)
        with flipped(Path(f"{copy}{file}"), place, bit):
            was_refused = asyncio.run(meet(copy, Path(f"{copy}{file}")))
            assert was_refused or not file, (place, bit)
            refused += was_refused
    assert refused
