"""What it costs to run a program as a phase: beside `sh`, which forks and runs the same one.

    python bench/phase_cost.py [PHASES] [ROUNDS]

Both take turns, so that a busy machine is busy for both; of each the best round counts.  Processor time is that of
everything: the caller, its shims, the programs.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

from lifebus_supervisor.runtime.step_process import StepCommand, run_step
from lifebus_transports.processes.shim_pool import SHIMS

PROGRAM = "/bin/true"
LOOP = 'i=0; while [ $i -lt "$1" ]; do "$2"; i=$((i+1)); done'


async def _phases(count: int, folder: Path) -> None:
    for number in range(count):
        command = StepCommand(argv=(PROGRAM,), cwd="/", environment={}, output=folder / f"{number % 2}.1")
        end = await run_step(command, cancelled=anyio.Event())
        if end.outcome.code != 0:
            raise RuntimeError(f"{PROGRAM}: {end}")


def _measured(count: int, *, by_shell: bool) -> tuple[float, float]:
    """Return wall and processor milliseconds a run, of a process of its own that does nothing else."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(_phases(1, Path(folder)))  # the shim is there, and what the first one imports
            began = time.perf_counter()
            if by_shell:
                subprocess.run(["/bin/sh", "-c", LOOP, "sh", str(count), PROGRAM], check=True)
            else:
                asyncio.run(_phases(count, Path(folder)))
            os.write(writer, str(time.perf_counter() - began).encode())
            SHIMS.close()  # its time counts once it is waited for
        os._exit(0)
    os.close(writer)
    wall_s = float(os.read(reader, 64))
    os.close(reader)
    used = os.wait4(pid, 0)[2]
    return wall_s / count * 1_000, (used.ru_utime + used.ru_stime) * 1_000


def main(count: int, rounds: int) -> None:
    """Measure in turns and print the difference."""
    few = max(1, count // 10)
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for _ in range(rounds):
        for by_shell in (True, False):
            wall_ms, used_ms = _measured(count, by_shell=by_shell)
            # What start and end of the measured process cost is in both, and goes.
            used_ms -= _measured(few, by_shell=by_shell)[1]
            found[by_shell].append((wall_ms, used_ms / (count - few)))
    best = {by_shell: tuple(min(one) for one in zip(*runs, strict=True)) for by_shell, runs in found.items()}
    for by_shell, name in ((True, "sh"), (False, "phases")):
        print(f"{name:7} {best[by_shell][0]:6.2f} ms a run, {best[by_shell][1]:6.2f} ms of processor time")
    more = [best[False][at] - best[True][at] for at in (0, 1)]
    print(f"more    {more[0]:6.2f} ms a run, {more[1]:6.2f} ms of processor time (load {os.getloadavg()[0]:.1f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
