"""What our hooks cost a harness: whole one-tool turns of the real programs, against a model on loopback.

The same settings, four times: without hooks, with `true` as every hook, with ours and a broker, with ours and none.
The cases take turns, so that a noisy machine hurts them alike.  Aim: with ours at most 1.25 times with `true`.
It measures the programs that `make e2e` has installed, and no others.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from lifebus.live.model.scripting import prompt, run, say
from lifebus.live.model.server import FakeModel, fake_model
from lifebus.live.programs import PROGRAMS
from lifebus.live.programs.base import HarnessProgram, Preparation, Turn
from lifebus.live.sandbox import Sandbox, sandbox
from support.broker_process import start_broker
from support.e2e.installation import install
from support.e2e.pinned import PINNED
from support.e2e.programs import is_installed

AIM = 1.25
NO_HOOKS, TRUE, OURS, AWAY = "no hooks", "hooks: true", "hooks: ours", "hooks: ours, broker away"
CASES = (NO_HOOKS, TRUE, OURS, AWAY)
MEASURED = {"codex": ".codex/hooks.json", "claude": ".claude/settings.json"}
"""The harnesses that are measured, and which files hold their hooks."""

_WARM_UP = 2

Times = dict[str, list[float]]


def available() -> list[str]:
    """Return the harnesses that can be measured here."""
    return [name for name in MEASURED if all(map(is_installed, PINNED[name].packages))]


def collect(name: str, rounds: int) -> Times:
    """Return the seconds of each run of a harness, by case."""
    harness = PROGRAMS[name]
    times: Times = {case: [] for case in CASES}
    with ExitStack() as stack:
        model = stack.enter_context(fake_model(harness.context_window))
        boxes = {case: stack.enter_context(_prepared(harness, model, case)) for case in CASES}
        for turn in range(rounds + _WARM_UP):
            for case, box in boxes.items():
                seconds = asyncio.run(_turn(harness, box, model, f"{case} {turn}"))
                if turn >= _WARM_UP:  # the first turns fill caches
                    times[case].append(seconds)
    return times


def share(times: Mapping[str, list[float]], case: str = OURS) -> float:
    """Return the median time of a case by the median time with `true`."""
    return statistics.median(times[case]) / statistics.median(times[TRUE])


@contextmanager
def _prepared(harness: HarnessProgram, model: FakeModel, case: str) -> Iterator[Sandbox]:
    """A home for one case, with its hooks, and a broker where the case has one."""
    with sandbox() as box, ExitStack() as stack:
        program = PINNED[harness.adapter_id].program
        harness.prepare(box, Preparation(model.url, program))
        (box.bin / harness.adapter_id).symlink_to(program.file)
        if case != NO_HOOKS:
            install(harness, box)
        if case == TRUE:
            _replace_hooks(box.home / MEASURED[harness.adapter_id])
        if case == OURS:
            broker = start_broker(
                box.home,
                LIFEBUS_RUNTIME_DIR=str(box.runtime_dir),
                LIFEBUS_STATE_DIR=str(box.state_dir),
                LIFEBUS_LIMITS_BEACON_MS="1000",
            )
            stack.callback(broker.close)
            asyncio.run(broker.ready())
        yield box


async def _turn(harness: HarnessProgram, box: Sandbox, model: FakeModel, label: str) -> float:
    turn = Turn(prompt(f"Work on {label}.", run("echo hi"), say(label)))
    began = time.perf_counter()
    async with box.started(harness.command(turn), harness.environment(box, model.url)) as started:
        code = started.wait()
        seconds = time.perf_counter() - began
        if code:
            raise SystemExit(f"{harness.adapter_id} ended with {code}: {await started.ended()}")
    return seconds


def _replace_hooks(path: Path) -> None:
    """Put `true` into the place of each of our commands."""
    document = json.loads(path.read_text())
    for groups in document["hooks"].values():
        for group in groups:
            for handler in group["hooks"]:
                handler["command"] = "true"
    path.write_text(json.dumps(document))


def main() -> None:
    """Measure and print, by itself."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    for name in sys.argv[2:] or available():
        times = collect(name, rounds)
        for case, values in times.items():
            print(f"{name:8}{case:28}{statistics.median(values) * 1e3:8.0f} ms {share(times, case):6.2f}")


if __name__ == "__main__":
    main()
