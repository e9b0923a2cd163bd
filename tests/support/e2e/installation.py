"""Hooks as a user installs and removes them: with `lifebus hooks`, and the harness's program on the path."""

from lifebus.live.live_run import run_lifebus
from lifebus.live.programs.base import HarnessProgram
from lifebus.live.sandbox import PATIENCE_S, Ran, Sandbox


def lifebus(box: Sandbox, *arguments: str) -> Ran:
    """Run a command of ours in the sandbox."""
    return run_lifebus(box, *arguments, timeout=PATIENCE_S)


def install(harness: HarnessProgram, box: Sandbox) -> None:
    """Install the hooks."""
    ran = lifebus(box, "hooks", "install", harness.adapter_id, "--yes")
    if ran.code != 0:
        raise RuntimeError(f"hooks were not installed: {ran}")


def remove(harness: HarnessProgram, box: Sandbox) -> None:
    """Take the hooks out again."""
    ran = lifebus(box, "hooks", "remove", harness.adapter_id, "--yes")
    if ran.code != 0:
        raise RuntimeError(f"hooks were not removed: {ran}")
