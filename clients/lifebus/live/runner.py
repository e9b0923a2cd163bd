"""Runs one scenario with one harness and says how what was recorded compares with the table."""

import shutil
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from lifebus.client import Bus
from lifebus.live.expected import Expectation
from lifebus.live.judge import broken_rules, lines_of
from lifebus.live.live_run import LiveError, LiveRun, live_run
from lifebus.live.programs.base import HarnessProgram, Installation
from lifebus.live.sandbox import Ran
from lifebus.live.scenarios import Scenario
from lifebus_contract import Receipt


@dataclass(frozen=True)
class Patience:
    """How long to wait for what is expected, and how long nothing more may come, in seconds.

    The latter is longer than turns and processes take to settle.
    """

    expected_s: float = 12.0
    quiet_s: float = 3.0


_PATIENCE: Final = Patience()


@dataclass(frozen=True)
class Cell:
    """What came of one scenario with one harness."""

    harness: str
    scenario: str
    expected: Expectation
    recorded: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    runs: tuple[Ran, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether all that was recorded is what has to be recorded; nothing was where there is nothing to run."""
        return bool(self.expected.cannot) or (self.expected.fits(self.recorded) and not self.faults)


async def run_scenario(
    harness: HarnessProgram,
    program: Installation,
    scenario: Scenario,
    expected: Expectation,
    *,
    keep: Path | None = None,
    patience: Patience = _PATIENCE,
) -> Cell:
    """Run a scenario in a sandbox of its own; `keep` is a directory that gets a copy of what everybody wrote there.

    Raises:
        LifebusError: the broker did not start, or stopped answering.
    """
    stuck: list[str] = []
    async with AsyncExitStack() as stack:
        on = await stack.enter_async_context(live_run(harness, program, scenario.refusing))
        try:
            await scenario.act(on)
        except (LiveError, TimeoutError) as error:
            stuck.append(f"the scenario could not be run: {error}")
        if not on.broker.running:
            await stack.enter_async_context(on.broker_again())
        receipts = await _recorded(on.bus, expected, patience)
        if keep:
            await anyio.to_thread.run_sync(_copy, on.box.home, keep / f"{harness.adapter_id}.{scenario.name}")
        return Cell(
            harness.adapter_id,
            scenario.name,
            expected,
            tuple(lines_of(receipts)),
            (*stuck, *broken_rules(receipts), *_harness_faults(on, scenario)),
            tuple(receipts),
            tuple(on.runs),
        )


def _copy(home: Path, target: Path) -> None:
    """Copy a sandbox without programs, sockets and what changes while it is read."""
    shutil.rmtree(target, ignore_errors=True)
    with suppress(shutil.Error):
        shutil.copytree(home, target, symlinks=True, ignore=shutil.ignore_patterns("node_modules", "run", ".git"))


def _harness_faults(on: LiveRun, scenario: Scenario) -> Iterator[str]:
    """Yield what the harness did that no scenario asks for."""
    for path in on.model.unknown:
        if path != "POST /api/show":  # Hermes asks every model which kind it is
            yield f"the model was asked for {path}"
    last = on.runs[-1] if on.runs else None
    if last is None or not scenario.ends_well:
        return
    if last.code:
        yield f"the harness exited with {last.code}"
    if scenario.refusing is None:  # a hook that refuses is reported as one that failed
        yield from (f"the harness says of a hook: {failure}" for failure in on.harness.hook_failures(last))


async def _recorded(bus: Bus, expected: Expectation, patience: Patience) -> list[Receipt]:
    """Follow until what is expected is there and nothing comes behind it, or patience is over."""
    found: list[Receipt] = []
    end = anyio.current_time() + patience.expected_s
    with anyio.CancelScope(deadline=end) as scope:
        async for item in bus.receipts(since="start"):
            found.append(item)
            quiet = anyio.current_time() + patience.quiet_s
            scope.deadline = quiet if expected.fits(lines_of(found)) else max(end, quiet)
    return found
