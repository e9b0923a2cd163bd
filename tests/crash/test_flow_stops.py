"""A broker that is asked to stop while a phase ends: its end is recorded, or it runs again and the run says so.

The oracle is a file that the phase itself writes and syncs; the moment at which its process is gone is the kernel's.
"""

import sys
from pathlib import Path

import psutil
import pytest

import lifebus
from lifebus_contract.flows import OutcomeKind
from lifebus_contract.runs import RunInfo, RunStatus
from support.broker_process import broker_process
from support.clients.proxy_box import eventually
from support.effort import effort
from support.flows import flow, step
from support.paths import SUPPORT
from support.patience import PATIENCE_S
from support.running import short_directory, until_answered

PHASE = """
import os, signal, sys

def say(what):
    world = os.open("world", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(world, f"{what} {os.environ['LIFEBUS_FLOW_TRY']} {os.getpid()}\\n".encode())
    os.fsync(world)
    os.close(world)

if sys.argv[1] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[1] == "polite":
    signal.signal(signal.SIGTERM, lambda *_: (say("end"), os._exit(0)))
say("start")
if sys.argv[1] != "quick" and os.environ["LIFEBUS_FLOW_TRY"] == "1":
    signal.sigwait({signal.SIGUSR1}) if sys.argv[1] == "deaf" else signal.pause()
with open("made", "wb") as made:
    made.truncate(BYTES)
say("end")
"""
PATIENT = SUPPORT / "crash/patient_broker.py"
MADE_BYTES = 400_000_000
"""So much that its check sum takes some time; it is a hole, and takes no room."""


def lines(project: Path) -> list[tuple[str, int, int]]:
    path = project / "world"
    found = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(what, int(number), int(pid)) for what, number, pid in found]


def said(project: Path, what: str) -> list[int]:
    """The tries that have said something."""
    return [number for one, number, _ in lines(project) if one == what]


async def stopped_and_gone_on(
    kind: str, made_bytes: int, *, at_start: bool
) -> tuple[RunInfo, list[tuple[str, int, int]]]:
    """Stop a broker once a phase has begun, or has ended, and have another one go on; return what came of it."""
    with short_directory() as home:
        project = home / "project"
        project.mkdir()
        program = home / "phase.py"
        program.write_text(PHASE.replace("BYTES", str(made_bytes)))
        words = (sys.executable, "-I", "-S", str(program), kind)
        async with (
            # A machine that is slow to read the artifact may take longer than a stop waits by default.
            broker_process(home, program=PATIENT, LIFEBUS_LIMITS_SHUTDOWN_MS="60000") as broker,
            lifebus.connect(runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            run = await bus.flows.submit(flow(project, step("a", command=words, artifacts=("made",))), run_id="run_1")
            eventually(lambda: bool(said(project, "start" if at_start else "end")))
            if not at_start:
                pid = lines(project)[0][2]
                eventually(lambda: not psutil.pid_exists(pid))
            assert await broker.terminate() == 0
        async with (
            broker_process(home) as broker,
            lifebus.connect(runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            await until_answered(lambda: bus.flows.show("run_1"), lambda found: found.run.status.is_over)
            run = (await bus.flows.show("run_1")).run  # with all of its tries
        return run, lines(project)


@pytest.mark.parametrize("made_bytes", [1, MADE_BYTES])
async def test_a_phase_that_had_ended_before_the_broker_was_asked_to_stop_ran_once(made_bytes: int) -> None:
    for _ in range(effort(2, 100)):
        run, world = await stopped_and_gone_on("quick", made_bytes, at_start=False)
        assert run.status is RunStatus.COMPLETED
        assert [(what, number) for what, number, _ in world] == [("start", 1), ("end", 1)]
        (only,) = run.steps[0].tries
        assert only.outcome is not None
        assert (only.outcome.kind, only.outcome.code) == (OutcomeKind.EXITED, 0)
        assert only.artifacts[0].byte_size == made_bytes


@pytest.mark.parametrize("kind", ["quick", "waiting", "polite", "deaf"])
async def test_a_phase_that_runs_when_the_broker_is_asked_to_stop_ends_on_record_or_runs_again(kind: str) -> None:
    for _ in range(effort(2, 100)):
        run, world = await stopped_and_gone_on(kind, 1, at_start=True)
        assert run.status is RunStatus.COMPLETED
        tries = run.steps[0].tries
        starts, ends = ([number for what, number, _ in world if what == one] for one in ("start", "end"))
        assert starts == [one.number for one in tries]
        # Done is what has said that it has come to its end, and no try behind it began.
        assert ends[-1] == tries[-1].number
        kinds = [one.outcome.kind for one in tries if one.outcome is not None]
        assert kinds == [OutcomeKind.INTERRUPTED] * (len(tries) - 1) + [OutcomeKind.EXITED]
        if kind != "quick":  # it waited until it was asked to end
            assert len(tries) == 2
        assert not any(psutil.pid_exists(pid) for _, _, pid in world)
