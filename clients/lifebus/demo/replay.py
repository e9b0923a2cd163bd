"""Plays recordings: one real hook process a call, at the recorded pace, as the harness would run it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Protocol

import anyio

from lifebus.demo.recordings import HookStep, Recording


class HookResult:
    """What a hook process gave back to its harness."""

    def __init__(self, adapter: str, hook: str, exit_code: int, stdout: bytes) -> None:
        self.adapter = adapter
        self.hook = hook
        self.exit_code = exit_code
        self.stdout = stdout


class Watcher(Protocol):
    """Who wants to know what hooks gave back."""

    def hook_answered(self, result: HookResult) -> None:
        """Take one result."""
        ...


class Player:
    """Runs hooks.  `speed` divides the recorded pauses; None leaves them out."""

    def __init__(self, environment: Mapping[str, str], cwd: Path, speed: float | None, watcher: Watcher) -> None:
        self.results: list[HookResult] = []
        self._environment = environment
        self._cwd = cwd
        self._speed = speed
        self._watcher = watcher
        self._script = str(resources.files("lifebus").joinpath("hook.py"))

    async def play(self, recordings: list[Recording]) -> None:
        """Play the recordings of one harness, one after the other."""
        for recording in recordings:
            begun = anyio.current_time()
            for step in recording.steps:
                if self._speed is not None:
                    await anyio.sleep_until(begun + step.at / self._speed)
                await self._call(recording.adapter, step)
            if self._speed is not None and recording is not recordings[-1]:
                await anyio.sleep(1 / self._speed)

    async def _call(self, adapter: str, step: HookStep) -> None:
        payload = _pipe_with(bytes(step.stdin))
        try:
            ran = await anyio.run_process(
                [sys.executable, "-I", "-S", self._script, adapter, step.hook],
                stdin=payload,
                stderr=subprocess.DEVNULL,
                env=self._environment,
                cwd=self._cwd,
                check=False,
            )
        finally:
            os.close(payload)
        result = HookResult(adapter, step.hook, ran.returncode, ran.stdout)
        self.results.append(result)
        self._watcher.hook_answered(result)


def _pipe_with(data: bytes) -> int:
    """Return the reading end of a pipe that holds the data; a hook that gives up early breaks nothing then.

    Raises:
        BlockingIOError: more data than a pipe holds, which no recorded call has.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        written = os.write(writing, data)
    finally:
        os.close(writing)
    if written != len(data):
        os.close(reading)
        raise BlockingIOError("a recorded call is larger than a pipe")
    return reading
