"""Everything that one test plays with: a real harness, the fake model, a real broker and a client of it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

import lifebus
from broker_process import BrokerProcess, broker_process
from e2e import by_hand
from e2e.fake_model import FakeModel, fake_model
from e2e.harnesses.base import Harness, Turn
from e2e.programs import cache, is_installed
from e2e.sandbox import Ran, Sandbox, Started, sandbox
from lifebus_contract import Receipt

PATIENCE_S = 20.0


@dataclass(frozen=True)
class Stage:
    """A harness that is connected to a broker."""

    harness: Harness
    box: Sandbox
    model: FakeModel
    broker: BrokerProcess
    bus: lifebus.Bus

    @asynccontextmanager
    async def started(self, turn: Turn) -> AsyncIterator[Started]:
        """The harness while it runs."""
        variables = self.harness.environment(self.box, self.model.url)
        async with self.box.started(self.harness.command(turn), variables) as started:
            yield started

    async def run(self, turn: Turn) -> Ran:
        """Run the harness to its end."""
        async with self.started(turn) as started:
            return await started.ended()

    async def receipts(self) -> list[Receipt]:
        """Return every receipt so far."""
        found = self.bus.receipts(since="start", until_head=True)
        return [item async for item in found if isinstance(item, Receipt)]

    async def first(self, condition: Callable[[Receipt], bool]) -> Receipt:
        """Wait for a receipt, which may be there already."""
        async with asyncio.timeout(PATIENCE_S):
            async for item in self.bus.receipts(since="start"):
                if isinstance(item, Receipt) and condition(item):
                    return item
        raise AssertionError("the receipts ended")

    async def session(self) -> str:
        """Return the id of the only session."""
        (head,) = await self.bus.sessions()
        return head.harness_session_id


@asynccontextmanager
async def stage(harness: Harness) -> AsyncIterator[Stage]:
    """A stage for one test; the test is skipped where the program is not installed."""
    missing = [str(package) for package in harness.packages if not is_installed(package)]
    if missing:
        pytest.skip(f"{', '.join(missing)} not in {cache()}; `make e2e` or `make e2e-all` installs it")
    with sandbox() as box, fake_model(harness.context_window) as model:
        harness.furnish(box, model.url)
        by_hand.install(harness.adapter_id, box)
        places = {"LIFEBUS_RUNTIME_DIR": str(box.runtime_dir), "LIFEBUS_STATE_DIR": str(box.state_dir)}
        async with (
            broker_process(box.home, **places) as broker,
            lifebus.connect("e2e", runtime_dir=box.runtime_dir) as bus,
        ):
            yield Stage(harness, box, model, broker, bus)


def told(receipts: Sequence[Receipt]) -> list[str]:
    """Return the events in order, how frames ended, and nothing that depends on the machine."""
    return [" ".join([receipt.event.value, *_ending(receipt)]) for receipt in receipts]


def _ending(receipt: Receipt) -> list[str]:
    found = receipt.telemetry_summary.get("frame_end")
    return [str(found)] if found else []
