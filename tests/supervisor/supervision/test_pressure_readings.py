"""Random sessions: each fact about pressure is one reading, stands where it was measured, and is the newest there is.

The harness writes its lines and calls its hooks in the order of life; how far the file was read is left to chance.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lifebus_adapters.shared.telemetry import Compacted, Fact, Usage, WindowKnown
from lifebus_contract import Receipt
from support.effort import effort
from support.supervisor.simulated_file import SESSION, SimulatedTail
from support.supervisor.supervised import SupervisedBus, supervised

PRESSURE, COMPACTED = "context.pressure_observed", "context.compacted"
Step = tuple[str, int]


class Measured:
    """A session whose usages all differ, so that each recorded one is found again among its lines."""

    def __init__(self, rig: SupervisedBus) -> None:
        self.rig, self.file = rig, SimulatedTail()
        self.signals: list[int | None] = []
        self.compactions = 0
        self.ended = False
        self._serial = 0
        rig.restart(self.file)

    async def hook(self, name: str, **fields: Any) -> list[Receipt]:
        payload = {"hook_event_name": name, "session_id": SESSION, "transcript_path": "/t/s1"}
        return await self.rig.hook("codex", payload | fields)

    async def take(self, step: Step) -> None:
        what, size = step
        await getattr(self, f"_do_{what}")(size)

    async def _do_usage(self, size: int) -> None:
        self._serial += 1
        # Three digits of fullness, and behind them a number of its own.
        self._write(size * 1_000 + self._serial, window=1_000_000)

    async def _do_bare_usage(self, size: int) -> None:
        self._serial += 1
        self._write(size * 1_000 + self._serial, window=None)

    def _write(self, used: int, window: int | None) -> None:
        source = "file" if window else None
        self.file.lines.append(
            Usage(session=SESSION, used_tokens=used, used_source="x", window_tokens=window, window_source=source)
        )

    async def _do_window(self, size: int) -> None:
        window = 500_000 + size
        self.file.lines.append(WindowKnown(session=SESSION, window_tokens=window, window_source="hook"))

    async def _do_signal(self, _: int) -> None:
        newest = newest_usage(self.file.lines)
        recorded = await self.hook("PreCompact", turn_id="t1", trigger="auto")
        if any(one.event == PRESSURE for one in recorded):
            self.signals.append(newest)

    async def _do_prompt(self, size: int) -> None:
        await self.hook("UserPromptSubmit", turn_id=f"t{size}")

    async def _do_compact(self, size: int) -> None:
        """As Codex: the hook before, the line, the hook after; sometimes the line is late, or a hook never comes."""
        if self.ended:  # only a harness that runs compacts
            await self._do_resume(size)
        if size % 3:
            await self._do_signal(size)
        self.compactions += 1
        proof = Compacted(session=SESSION, key=str(self.compactions))
        if size % 2:
            self.file.lines.append(proof)
        if size % 5:
            await self.hook("PostCompact", turn_id="t1", trigger="auto")
        if not size % 2:
            self.file.lines.append(proof)

    async def _do_tick(self, count: int) -> None:
        await self.rig.tick(count % 3 + 1)

    async def _do_observe(self, _: int) -> None:
        await self.rig.supervisor.poll_early()

    async def _do_end(self, _: int) -> None:
        await self.hook("SessionEnd", reason="other")
        await self.rig.tick()
        self.ended = True

    async def _do_resume(self, _: int) -> None:
        await self.hook("SessionStart", source="resume")
        self.ended = False


def newest_usage(lines: Sequence[Fact]) -> int | None:
    """What the file shows of the context as it is: nothing where it was rewritten since."""
    for line in reversed(lines):
        if isinstance(line, Compacted):
            return None
        if isinstance(line, Usage):
            return line.used_tokens
    return None


def level_after(held: str | None, percent: int) -> str:
    """The documented rule, for a percentage."""
    names, begins = ["low", "moderate", "high", "critical"], [0, 60, 80, 92]
    reached = max(number for number, begin in enumerate(begins) if percent >= begin)
    if held is not None and names.index(held) > reached:
        stays = max(number for number, begin in enumerate(begins) if percent >= begin - 5 or number == 0)
        return names[min(names.index(held), stays)]
    return names[reached]


def check(receipts: Sequence[Receipt], life: Measured) -> None:
    held: str | None = None
    signals = iter(life.signals)
    compacted, ended = 0, False
    for receipt in receipts:
        facts = receipt.telemetry_summary
        if receipt.event == PRESSURE:
            assert not ended
            held = check_fact(facts, held)
            used = facts["context_used_tokens"]
            if facts.get("signal"):
                assert used == next(signals)
            if isinstance(used, int):
                assert compactions_before(life.file.lines, used) == compacted
        compacted += receipt.event == COMPACTED
        if receipt.event in {"session.started", "session.ended"}:
            ended = receipt.event == "session.ended"
    assert next(signals, "none") == "none"


def check_fact(facts: Any, held: str | None) -> str | None:
    """A fact is consistent in itself; return the level that is held behind it."""
    level, used, window = facts["context_pressure"], facts["context_used_tokens"], facts["context_window_tokens"]
    percent = facts["context_used_pct"]
    assert (level is None) is (window is None) is (percent is None)
    assert ("window_source" in facts) is (window is not None)
    if level is None:
        return held if facts.get("signal") else None
    assert percent == min(100, used * 100 // window)
    assert level == level_after(held, percent)
    return str(level)


def compactions_before(lines: Sequence[Fact], used: int) -> int:
    place = next(number for number, one in enumerate(lines) if isinstance(one, Usage) and one.used_tokens == used)
    return sum(isinstance(one, Compacted) for one in lines[:place])


HARNESS = ("usage", "usage", "usage", "bare_usage", "window", "signal", "prompt", "compact", "end", "resume")
STEPS = st.lists(st.tuples(st.sampled_from((*HARNESS, "tick", "tick", "observe")), st.integers(0, 999)), max_size=40)


@settings(max_examples=effort(25, 1_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
@example(steps=[("compact", 0), ("end", 0), ("end", 0), ("tick", 32), ("compact", 0)])  # forgotten between the two
def test_each_fact_about_pressure_is_one_reading_and_stands_where_it_was_measured(steps: list[Step]) -> None:
    async def live() -> None:
        with tempfile.TemporaryDirectory() as directory:
            async with supervised(Path(directory)) as rig:
                life = Measured(rig)
                await life.hook("SessionStart", source="startup")
                for step in steps:
                    await life.take(step)
                await rig.tick(4)
                receipts = await rig.since(0)
                check(receipts, life)
                assert sum(one.event == COMPACTED for one in receipts) == life.compactions

    asyncio.run(live())
