"""An operator prunes a running broker's ledger: who loses something is named and told, and bad wishes are refused."""

import pytest

from lifebus_admin.ledger_files.checks import check_file
from lifebus_contract import InvalidRequest
from support.integration.consuming import emitted, take, take_gap
from support.running import connected, running_bus, short_directory


async def test_pruning_names_the_consumers_that_lose_something_and_they_are_told() -> None:
    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            await emitted(bus, 6, sessions=2)
            async with bus.consume("behind", since="start") as deliveries:
                await deliveries.ack(await take(deliveries, 1))
            async with bus.consume("ahead", since="start") as deliveries:
                await deliveries.ack(await take(deliveries, 6))
            answer = await bus.ledger.prune(4)
            assert (answer.before, answer.floor, answer.consumers) == (0, 4, ("behind",))
            again = await bus.ledger.prune(3)
            assert (again.before, again.floor, again.consumers) == (4, 4, ())
            async with bus.consume("behind", gaps="yield") as deliveries:
                assert (await take_gap(deliveries)).until == 4
                assert [one.position for one in await take(deliveries, 2)] == [5, 6]
            with pytest.raises(InvalidRequest, match="the newest is 6"):
                await bus.ledger.prune(7)
        assert check_file(daemon.settings.ledger_path) == []


async def test_a_ledger_in_memory_is_not_pruned() -> None:
    async with running_bus(backend="memory") as daemon, connected(daemon) as bus:
        with pytest.raises(InvalidRequest, match="not kept"):
            await bus.ledger.prune(1)
