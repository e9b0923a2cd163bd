"""`python -m lifebus.make`: makes a goal by a broker's flows, and says how each target went."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TextIO

import anyio

from lifebus.client import connect
from lifebus.make.targets import CLIENT_ID, make_flow, read_targets
from lifebus_contract import LifebusError
from lifebus_contract.flows import FlowDefinition
from lifebus_contract.runs import RunInfo, RunStatus, StepStatus

FAILED: Final = 2
"""The exit code of make where a target fails, or cannot be made."""

_SHOWN: Final = frozenset({StepStatus.DONE, StepStatus.FAILED, StepStatus.ABORTED})


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout, errors: TextIO = sys.stderr) -> int:
    """Make a goal; return 0 where everything was made, and 2 where not."""
    parser = argparse.ArgumentParser(prog="python -m lifebus.make", description="Make a goal by a broker's flows.")
    parser.add_argument("goal", nargs="?", help="the target to make; the default is the first one")
    parser.add_argument("-f", "--file", default="Makefile", help="the file with the targets")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="how many targets may be made at once")
    given = parser.parse_args(arguments)
    file = Path(given.file).resolve()
    try:
        folder = file.parent
        flow = make_flow(
            read_targets(file.read_text()),
            given.goal,
            str(folder),
            jobs=given.jobs,
            is_file=lambda name: (folder / name).exists(),
        )
        return anyio.run(make, flow, out)
    except (LifebusError, OSError) as fault:
        errors.write(f"make: {fault.detail if isinstance(fault, LifebusError) else fault}\n")
        return FAILED


async def make(flow: FlowDefinition, out: TextIO = sys.stdout) -> int:
    """Have the broker run a flow, write a line for each target that ends, and return the exit code.

    Raises:
        LifebusError: no broker answers, or it refuses.
    """
    async with connect(CLIENT_ID) as bus:
        begun = await bus.flows.submit(flow)
        run, seen = begun, set[str]()
        async for run in bus.flows.follow(begun.run_id):
            for line in _ended(run, seen):
                out.write(f"{line}\n")
                out.flush()
    return 0 if run.status is RunStatus.COMPLETED else FAILED


def _ended(run: RunInfo, seen: set[str]) -> Iterator[str]:
    """Yield a line for each target that has ended since the last look."""
    for step in run.steps:
        if step.status not in _SHOWN or step.step_id in seen:
            continue
        seen.add(step.step_id)
        last = step.tries[-1] if step.tries else None
        code = None if last is None or last.outcome is None else last.outcome.code
        if step.status is StepStatus.DONE:
            yield f"{step.step_id}: done"
        else:
            yield f"{step.step_id}: failed" + (f" with code {code}" if code is not None else "")
            if last is not None and last.tail:
                yield last.tail
