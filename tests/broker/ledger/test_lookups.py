"""Questions for keys side by side: few reads, and nobody's cancellation or fault is another's loss."""

import anyio
import pytest

from lifebus_broker.ledger.lookups import MOST_KEYS, Found, Lookups, Scope
from lifebus_contract import BrokerBusy


class Reader:
    """A ledger's read that notes what it was asked, and goes on when it is let."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.asked: list[list[Scope]] = []
        self.may_go_on = anyio.Event()
        self.fault = fault

    async def read(self, scopes: list[Scope]) -> list[Found]:
        self.asked.append(list(scopes))
        await self.may_go_on.wait()
        if self.fault is not None:
            raise self.fault
        return [(scope[2].encode(), None) for scope in scopes]


def scope(key: int) -> Scope:
    return ("client", "codex", f"k{key}")


async def test_whoever_asks_during_a_read_shares_the_next_one_and_gets_its_own_answer() -> None:
    reader, answers = Reader(), dict[int, list[Found]]()
    lookups: Lookups[Scope, Found] = Lookups(reader.read)

    async def ask(key: int) -> None:
        answers[key] = await lookups.find([scope(key), scope(key + 100)])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, 0)
        await anyio.wait_all_tasks_blocked()
        for key in range(1, 20):
            tasks.start_soon(ask, key)
        await anyio.wait_all_tasks_blocked()
        reader.may_go_on.set()
    assert [len(asked) for asked in reader.asked] == [2, 38]
    assert answers == {key: [(f"k{key}".encode(), None), (f"k{key + 100}".encode(), None)] for key in range(20)}


async def test_a_read_takes_a_bounded_number_of_keys() -> None:
    reader = Reader()
    lookups: Lookups[Scope, Found] = Lookups(reader.read)
    async with anyio.create_task_group() as tasks:
        for key in range(MOST_KEYS):
            tasks.start_soon(lookups.find, [scope(key), scope(-key)])
        await anyio.wait_all_tasks_blocked()
        reader.may_go_on.set()
    assert max(len(asked) for asked in reader.asked) <= MOST_KEYS
    assert sum(len(asked) for asked in reader.asked) == 2 * MOST_KEYS


async def test_one_that_is_cancelled_costs_the_others_nothing() -> None:
    reader, answers = Reader(), list[list[Found]]()
    lookups: Lookups[Scope, Found] = Lookups(reader.read)
    first = anyio.CancelScope()

    async def give_up() -> None:
        with first:
            await lookups.find([scope(1)])

    async def ask() -> None:
        answers.append(await lookups.find([scope(2)]))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lookups.find, [scope(0)])  # holds the turn
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(give_up)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        reader.may_go_on.set()
    assert answers == [[(b"k2", None)]]


async def test_a_fault_is_told_to_everybody_in_the_batch_and_to_nobody_after_it() -> None:
    reader, codes = Reader(BrokerBusy("not now", code="busy")), list[str | None]()
    lookups: Lookups[Scope, Found] = Lookups(reader.read)

    async def ask(key: int) -> None:
        with pytest.raises(BrokerBusy) as fault:
            await lookups.find([scope(key)])
        codes.append(fault.value.code)

    async with anyio.create_task_group() as tasks:
        for key in range(5):
            tasks.start_soon(ask, key)
        await anyio.wait_all_tasks_blocked()
        reader.may_go_on.set()
    assert codes == ["busy"] * 5
    reader.fault = None
    assert await lookups.find([scope(9)]) == [(b"k9", None)]
