"""Everything that one test plays with: a real harness, the fake model, a real broker and a client of it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import lifebus
from lifebus.live.model.server import FakeModel, Request, fake_model
from lifebus.live.programs.base import HarnessProgram, Preparation, Turn
from lifebus.live.sandbox import Ran, Sandbox, Started, sandbox
from lifebus_contract import CallbackResponse, DispatchEnvelope, LifecycleEvent, Receipt, ReceiptStatus
from support.broker_process import BrokerProcess, broker_process
from support.e2e.installation import install
from support.e2e.pinned import PINNED
from support.integration.serving import serving
from support.patience import PATIENCE_S

TICK_MS = "500"
ASKED_IN_VAIN = {"POST /api/show"}
"""What a harness asks every model in order to find out which kind it is."""

_ASIDE = {LifecycleEvent.CONTEXT_PRESSURE_OBSERVED, LifecycleEvent.CAPABILITY_DEGRADED, LifecycleEvent.SUPERVISOR_TICK}


@dataclass(frozen=True)
class HarnessRun:
    """A harness that is connected to a broker."""

    harness: HarnessProgram
    box: Sandbox
    model: FakeModel
    broker: BrokerProcess
    bus: lifebus.Bus

    @asynccontextmanager
    async def started(self, turn: Turn) -> AsyncIterator[Started]:
        """The harness while it runs."""
        program = PINNED[self.harness.adapter_id].program
        variables = program.variables | self.harness.environment(self.box, self.model.url)
        async with self.box.started(self.harness.command(turn), variables) as started:
            yield started

    async def run(self, turn: Turn) -> Ran:
        """Run the harness to its end, which must be a good one, with no hook failing."""
        async with self.started(turn) as started:
            ran = await started.ended()
        assert (ran.code, self.harness.hook_failures(ran)) == (0, []), ran
        assert set(self.model.unknown) <= ASKED_IN_VAIN
        return ran

    async def stopped(self, turn: Turn, number: signal.Signals) -> Ran:
        """Run the harness until it waits for the model, and send it a signal."""
        async with self.started(turn) as started:
            await asyncio.to_thread(self.model.wait_held)
            started.signal(number)
            return await started.ended()

    async def receipts(self) -> list[Receipt]:
        """Return every receipt so far; those of one session count 1, 2, 3 …"""
        found = self.bus.receipts(since="start", until_head=True)
        receipts = [item async for item in found if isinstance(item, Receipt)]
        for head in await self.bus.sessions():
            own: list[int | None] = [
                one.sequence for one in receipts if one.harness_session_id == head.harness_session_id
            ]
            assert own == list(range(1, len(own) + 1))
        return receipts

    async def pressures(self) -> list[tuple[str | None, int, int | None, int | None]]:
        """Return each observation of pressure: level, tokens used, window, percentage."""
        names = ("context_pressure", "context_used_tokens", "context_window_tokens", "context_used_pct")
        found = [one for one in await self.receipts() if one.event is LifecycleEvent.CONTEXT_PRESSURE_OBSERVED]
        return [tuple(one.telemetry_summary[name] for name in names) for one in found]  # type: ignore[misc]  # as named

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
    async def delivering(self, events: Iterable[str]) -> AsyncIterator[None]:
        """A callback client that delivers a text at each of these events; `text_at` says which."""

        async def answer(dispatch: DispatchEnvelope) -> CallbackResponse:
            payload = lifebus.make_payload("e2e", text_at(dispatch.request.event))
            return CallbackResponse.ok(ReceiptStatus.DELIVERED, payload)

        async with serving(self.bus, answer, events):
            yield

    @asynccontextmanager
    async def broker_again(self) -> AsyncIterator[None]:
        """A new broker in the place of the one that has gone."""
        async with broker_in(self.box):
            yield


@asynccontextmanager
async def harness_run(harness: HarnessProgram, configuration: str = "") -> AsyncIterator[HarnessRun]:
    """A harness with a broker for one test, configured as asked; skipped where the program is not installed."""
    program = PINNED[harness.adapter_id].program
    with sandbox(program.more_path) as box, fake_model(harness.context_window) as model:
        harness.prepare(box, Preparation(model.url, program))
        (box.home / ".config/lifebus").mkdir(parents=True)
        (box.home / ".config/lifebus/config.toml").write_text(configuration)
        (box.bin / harness.adapter_id).symlink_to(program.file)
        install(harness, box)
        async with broker_in(box) as broker, lifebus.connect("e2e", runtime_dir=box.runtime_dir) as bus:
            yield HarnessRun(harness, box, model, broker, bus)


@asynccontextmanager
async def broker_in(box: Sandbox) -> AsyncIterator[BrokerProcess]:
    places = {"LIFEBUS_RUNTIME_DIR": str(box.runtime_dir), "LIFEBUS_STATE_DIR": str(box.state_dir)}
    async with broker_process(box.home, **places, LIFEBUS_TICKS_INTERVAL_MS=TICK_MS) as broker:
        yield broker


def text_at(event: LifecycleEvent | str) -> str:
    """Return the text that a client delivers at an event."""
    return f"Words of the bus at {LifecycleEvent(event).value}."


def events_of(receipts: Sequence[Receipt]) -> list[str]:
    """Return what happened to sessions, frames and contexts, in order, with the harness's own word for it."""
    return [
        " ".join([receipt.event.value, *_manner(receipt)])
        for receipt in receipts
        if receipt.event not in _ASIDE and receipt.client_id != "e2e"
    ]


def degraded(receipts: Sequence[Receipt]) -> list[str]:
    """Return why capabilities were lost."""
    return [str(one.telemetry_summary) for one in receipts if one.event is LifecycleEvent.CAPABILITY_DEGRADED]


def has_pressure(level: str) -> Callable[[Receipt], bool]:
    """Return a condition: pressure of this level was observed."""
    return lambda receipt: receipt.telemetry_summary.get("context_pressure") == level


def is_closed(receipt: Receipt) -> bool:
    """Whether this is the end of a session that no hook reported."""
    return receipt.telemetry_summary.get("session_end") == "abandoned"


def is_spooled(receipt: Receipt) -> bool:
    """Whether the fact came from the spool."""
    return "spooled_late" in [warning.code for warning in receipt.warnings]


def places(request: Request, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return the texts in the order in which they stand in a request, each with who says it."""
    found: list[tuple[str, str]] = []
    for item in request.conversation.items:
        inside = sorted((item.text.find(text), text) for text in texts if text in item.text)
        found += [(item.role, text) for _, text in inside]
    return found


_MANNERS = {
    LifecycleEvent.SESSION_STARTING: "source",
    LifecycleEvent.SESSION_STARTED: "source",
    LifecycleEvent.FRAME_ENDED: "frame_end",
    LifecycleEvent.CONTEXT_COMPACTED: "trigger",
}


def _manner(receipt: Receipt) -> list[str]:
    found = receipt.telemetry_summary.get(_MANNERS.get(receipt.event, ""))
    return [str(found)] if found else []
