"""Steps that are run for tests: commands in sh and Python, and their ends."""

import os
import sys
from pathlib import Path
from typing import Any

import anyio

from lifebus_contract.flows import OutcomeKind
from lifebus_supervisor.runtime.step_process import StepCommand, StepEnd, run_step
from support.leftovers import MARK

OWNER = """
import anyio, sys
from pathlib import Path
from support.supervisor.steps import python_step, run
anyio.run(run, python_step(Path(sys.argv[1]), sys.argv[2]))
"""
"""A process that runs a Python step, by a folder and a script."""


def step(folder: Path, *argv: str, **options: Any) -> StepCommand:
    """A command in a folder, with the mark of the test in its environment."""
    marked = {"PATH": os.defpath, MARK: os.environ.get(MARK, "")}
    environment = marked | options.pop("environment", {})
    given: dict[str, Any] = {"cwd": str(folder), "output": folder / "step.1", "grace_ms": 2_000} | options
    return StepCommand(argv=argv, environment=environment, **given)


def sh_step(folder: Path, script: str, **options: Any) -> StepCommand:
    """A script of the shell."""
    return step(folder, "/bin/sh", "-c", script, **options)


def python_step(folder: Path, script: str, **options: Any) -> StepCommand:
    """A Python program."""
    return step(folder, sys.executable, "-I", "-S", "-c", f"import os, signal, sys, time\n{script}", **options)


async def run(command: StepCommand, *, cancelled: anyio.Event | None = None) -> StepEnd:
    """Run a step that nobody aborts, or who has the event."""
    return await run_step(command, cancelled=cancelled or anyio.Event())


def brief(end: StepEnd) -> tuple[OutcomeKind, int | None, int | None]:
    """How it ended, without what is for people."""
    return end.outcome.kind, end.outcome.code, end.outcome.signal
