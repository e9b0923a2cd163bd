"""What runs of flows cost: a flow of `true` beside the same loop in `sh`, and a thousand runs that wait for a person.

The flow and the loop take turns, so that a noisy machine hurts both alike.  The broker is a process of its own, on a
ledger that syncs; each phase is a program that is started, watched and recorded.
"""

import asyncio
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

import lifebus
from bench.lifebus_client import Broker, broker
from bench.report import Aim
from lifebus_contract.flows import CodeMap, CodeRule, FlowDefinition, StepDefinition, StepVerdict
from lifebus_contract.runs import RunInfo, RunStatus

OVER_LOOP = 1.5
PHASE_MS = 5.0
WAITING_CPU_PERCENT = 1.0
WAITING_MB = 20.0
_LOOP = "i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done"
_WARM = 50
"""Runs before the measurement: what the first ones load is not what a waiting run costs."""
_AT_ONCE = 32
_MOST_LOOKS = 15
_CODES = CodeMap(
    rules=(
        CodeRule(first=0, last=0, verdict=StepVerdict.PROCEED),
        CodeRule(first=2, last=2, verdict=StepVerdict.ESCALATE),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Seconds of each round of the flow and of the loop, and how many phases both had."""

    count: int
    flow_s: list[float]
    loop_s: list[float]

    @property
    def over_ms(self) -> float:
        """Milliseconds a phase beyond one and a half times the loop, of the medians."""
        allowed = OVER_LOOP * statistics.median(self.loop_s)
        return 1e3 * (statistics.median(self.flow_s) - allowed) / self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What runs cost that wait: MB of memory in all, per cent of a core, and the same without them."""

    count: int
    memory_mb: float
    cpu_percent: float
    idle_percent: float


def collect_phases(count: int, rounds: int, say: Callable[[str], None]) -> Phases:
    """Run the flow and the loop in turns."""
    flow_s: list[float] = []
    loop_s: list[float] = []
    with broker() as running:
        for turn in range(rounds + 1):
            began = time.perf_counter()
            subprocess.run(["/bin/sh", "-c", _LOOP.format(count=count)], check=True)
            loop = time.perf_counter() - began
            flow = asyncio.run(_flow_of(running, count, turn))
            if turn:  # the first turn starts the shim and fills caches
                loop_s.append(loop)
                flow_s.append(flow)
                say(f"{count} phases: {1e3 * flow / count:.2f} ms each, in the loop {1e3 * loop / count:.2f} ms")
    return Phases(count=count, flow_s=flow_s, loop_s=loop_s)


def collect_waiting(count: int, seconds: float, say: Callable[[str], None]) -> Waiting:
    """Have so many runs wait for a person, and watch the broker for some seconds."""
    with broker() as running:
        process = psutil.Process(running.pid)
        asyncio.run(_wait_for_people(running, 0, _WARM))
        _settle(process)
        idle = _cpu_percent(process, seconds)
        before = process.memory_info().rss
        asyncio.run(_wait_for_people(running, _WARM, count))
        _settle(process)
        after = process.memory_info().rss
        busy = _cpu_percent(process, seconds)
    found = Waiting(count=count, memory_mb=(after - before) / 1e6, cpu_percent=busy, idle_percent=idle)
    say(str(found))
    return found


def aims(phases: Phases, waiting: Waiting) -> list[Aim]:
    """Return the aims: a phase beside the loop, and what waiting runs may cost."""
    return [
        Aim(
            text=f"a phase of {phases.count}: beyond {OVER_LOOP} × the same loop in sh",
            limit=PHASE_MS,
            measured=phases.over_ms,
            at_most=True,
            unit="ms",
        ),
        Aim(
            text=f"{waiting.count:,} runs that wait: of a core",
            limit=WAITING_CPU_PERCENT,
            measured=waiting.cpu_percent,
            at_most=True,
            unit="%",
        ),
        Aim(
            text=f"{waiting.count:,} runs that wait: memory",
            limit=WAITING_MB,
            measured=waiting.memory_mb,
            at_most=True,
            unit="MB",
        ),
    ]


async def _flow_of(running: Broker, count: int, turn: int) -> float:
    steps = tuple(
        StepDefinition(step_id=f"s{number}", needs=(f"s{number - 1}",) if number else (), command=("/bin/true",))
        for number in range(count)
    )
    definition = _flow(running.state_dir.parent / "project", *steps)
    async with lifebus.connect("bench", runtime_dir=running.runtime_dir) as bus:
        began = time.perf_counter()
        run = await bus.flows.submit(definition, run_id=f"loop-{turn}")
        # Asked for more records than a flow can have: nothing is told of the phases, as nobody follows the loop.
        while not run.status.is_over:
            run = await bus.flows.wait(run.run_id, 10 * count)
        seconds = time.perf_counter() - began
    if run.status is not RunStatus.COMPLETED:
        raise SystemExit(f"the flow is {run.status.value}: {run.reason}")
    return seconds


async def _wait_for_people(running: Broker, first: int, count: int) -> None:
    async with lifebus.connect("bench", runtime_dir=running.runtime_dir) as bus:
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(number: int) -> None:
            async with places:
                blocked = StepDefinition(step_id="blocked", command=("/bin/sh", "-c", "exit 2"))
                rest = StepDefinition(step_id="rest", needs=("blocked",), command=("/bin/true",))
                folder = running.state_dir.parent / f"project-{number}"
                run = await bus.flows.submit(_flow(folder, blocked, rest), run_id=f"waiting-{number}")
                await _until_waiting(bus, run)

        await asyncio.gather(*(one(number) for number in range(first, first + count)))


async def _until_waiting(bus: lifebus.Bus, run: RunInfo) -> None:
    while run.status is not RunStatus.WAITING:
        run = await bus.flows.wait(run.run_id, run.number)


def _flow(folder: Path, *steps: StepDefinition) -> FlowDefinition:
    folder.mkdir(exist_ok=True)
    return FlowDefinition(name="bench", client_id="bench", root=str(folder), steps=steps, codes=_CODES)


def _settle(process: psutil.Process) -> None:
    """Wait until receipts are emitted and a snapshot is taken: that is the cost of beginning, not of waiting."""
    for _ in range(_MOST_LOOKS):
        if _cpu_percent(process, 2.0) < WAITING_CPU_PERCENT:
            return


def _cpu_percent(process: psutil.Process, seconds: float) -> float:
    before, began = process.cpu_times(), time.perf_counter()
    time.sleep(seconds)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    return 100 * used / (time.perf_counter() - began)
