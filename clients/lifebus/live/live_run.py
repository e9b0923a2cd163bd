"""What a scenario is run with: a real harness with our hooks, the fake model, a broker, and a client of it."""

import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from lifebus.client import Bus, connect
from lifebus.live.broker import LiveBroker, live_broker
from lifebus.live.judge import WAITING
from lifebus.live.model.server import FakeModel, fake_model
from lifebus.live.programs.base import HarnessProgram, HookPoint, Installation, Preparation, RefusingHook, Turn
from lifebus.live.sandbox import Ran, Sandbox, Started, sandbox
from lifebus.live.terminal import in_terminal
from lifebus_contract import LifebusError, LifecycleEvent, Receipt

PATIENCE_S: Final = 15.0
RUN_S: Final = 150.0
_RETRY_S: Final = 0.05
_TAIL: Final = 500


class LiveError(LifebusError):
    """A scenario could not be run to its end; the text says where it stuck."""


@dataclass
class LiveRun:
    """A harness that is connected to a broker.  `runs` are the harness's runs so far, the newest last."""

    harness: HarnessProgram
    program: Installation
    box: Sandbox
    model: FakeModel
    broker: LiveBroker
    bus: Bus
    runs: list[Ran] = field(default_factory=list[Ran])

    @property
    def reached(self) -> Path:
        """A file that a scripted tool call makes in order to say that it runs."""
        return self.box.tmp / "reached"

    @asynccontextmanager
    async def started(self, turn: Turn) -> AsyncGenerator[Started]:
        """The harness while it runs."""
        variables = self.program.variables | self.harness.environment(self.box, self.model.url)
        async with self.box.started(self.harness.command(turn), variables) as started:
            yield started

    async def run(self, turn: Turn) -> Ran:
        """Run the harness to its end, whatever its exit code."""
        async with self.started(turn) as started:
            ran = self._kept(await started.ended(RUN_S))
            await started.alone()
            return ran

    async def stopped(self, turn: Turn, number: signal.Signals, condition: Callable[[], bool]) -> Ran:
        """Run the harness, send it a signal as soon as the condition holds, and wait for its end.

        Raises:
            LiveError: the condition does not come to hold.
        """
        async with self.started(turn) as started:
            with anyio.move_on_after(RUN_S):
                while not condition() and started.running:  # noqa: ASYNC110  another process makes it hold
                    await anyio.sleep(_RETRY_S)
            if not condition():
                ran = self._kept(await _over(started))
                raise LiveError(f"the harness never came to where it should be stopped: {ran}")
            await self._known(lambda one: one.event is LifecycleEvent.FRAME_OPENED)
            if number is signal.SIGKILL:
                started.signal_all(number)
            else:
                started.signal(number)
            ran = self._kept(await started.ended(RUN_S))
            await started.alone()
            return ran

    async def asked(self, turn: Turn) -> Ran:
        """Run the harness until it asks for a permission, allow it as a person does, and end it behind its turn.

        Raises:
            LiveError: it is not known to ask, or the call that was to be allowed is not made.
        """
        asking = self.harness.asking
        if asking is None:
            raise LiveError(f"{self.harness.adapter_id} is not known to ask")
        await anyio.to_thread.run_sync(asking.prepare, self.box)
        if not asking.dialog:
            return await self.run(turn)
        variables = self.program.variables | self.harness.environment(self.box, self.model.url)
        async with in_terminal(self.box, asking.command(turn), variables) as terminal:
            with anyio.move_on_after(RUN_S):
                await terminal.shows(asking.dialog)
                await self._known(lambda one: one.telemetry_summary.get(WAITING) == "begun")
                await terminal.press_until(asking.allow, self.reached.exists)
                await self._known(lambda one: one.event is LifecycleEvent.FRAME_ENDED)
            if not self.reached.exists():
                raise LiveError(f"it was not allowed what it asked for: {terminal.screen[-_TAIL:]}")
            terminal.started.signal(signal.SIGTERM)
            ran = self._kept(await terminal.started.ended(RUN_S))
            await terminal.started.alone()
            return ran

    async def session(self) -> str:
        """Return the id of the session that began first.

        Raises:
            LiveError: no session was recorded.
        """
        for receipt in await self.receipts():
            if receipt.harness_session_id:
                return receipt.harness_session_id
        raise LiveError("no session was recorded")

    async def receipts(self) -> list[Receipt]:
        """Return every receipt so far."""
        found = self.bus.receipts(since="start", until_head=True)
        return [item async for item in found]

    async def settled(self) -> None:
        """Wait until a session's end was recorded for every run of the harness, or for some seconds."""
        missing = len(self.runs)
        with anyio.move_on_after(PATIENCE_S):
            async for item in self.bus.receipts(since="start"):
                missing -= _ends_session(item)
                if not missing:
                    return

    @asynccontextmanager
    async def broker_again(self) -> AsyncGenerator[None]:
        """A new broker in the place of the one that has gone."""
        async with live_broker(self.box) as self.broker:
            yield

    async def _known(self, condition: Callable[[Receipt], bool]) -> None:
        """Wait until lifebus knows it, or for some seconds: a signal that is faster than the hook shows nothing."""
        with anyio.move_on_after(PATIENCE_S):
            async for item in self.bus.receipts(since="start"):
                if condition(item):
                    return

    def _kept(self, ran: Ran) -> Ran:
        self.runs.append(ran)
        return ran


def _ends_session(receipt: Receipt) -> bool:
    # A process may say that it ends and name no session.
    return receipt.event is LifecycleEvent.SESSION_ENDED and receipt.harness_session_id is not None


async def _over(started: Started) -> Ran:
    started.end()
    return await started.ended(RUN_S)


@asynccontextmanager
async def live_run(
    harness: HarnessProgram, program: Installation, refusing: tuple[HookPoint, int] | None = None
) -> AsyncGenerator[LiveRun]:
    """A harness with a broker for one scenario; `refusing` is what a hook of somebody else refuses, and how often.

    Raises:
        LiveError: the hooks could not be installed.
        TransportError: the broker did not start.
    """
    with sandbox(program.more_path) as box, fake_model(harness.context_window) as model:
        refusal = RefusingHook(refusing[0], refusing[1], box.home / "refused") if refusing else None
        harness.prepare(box, Preparation(model.url, program, refusal))
        (box.bin / harness.adapter_id).symlink_to(program.file)
        await anyio.to_thread.run_sync(_install, harness, box)
        async with live_broker(box) as broker, connect("live", runtime_dir=box.runtime_dir) as bus:
            yield LiveRun(harness, program, box, model, broker, bus)


def run_lifebus(box: Sandbox, *arguments: str, timeout: float = RUN_S) -> Ran:
    """Run a command of ours in a sandbox; `timeout` is in seconds.

    Raises:
        subprocess.TimeoutExpired: it did not end.
    """
    ran = subprocess.run(  # noqa: S603  our own interpreter and our own words
        [sys.executable, "-m", "lifebus", *arguments],
        env=box.environment({}),
        cwd=box.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def _install(harness: HarnessProgram, box: Sandbox) -> None:
    ran = run_lifebus(box, "hooks", "install", harness.adapter_id, "--yes", "--skip-unknown")
    if ran.code != 0:
        raise LiveError(f"the hooks were not installed: {ran.out}{ran.err}")
