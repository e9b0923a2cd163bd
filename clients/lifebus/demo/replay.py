"""Replays recorded hook calls: one real hook process a call, at the recorded pace, as the harness would run it."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from lifebus_transports.hooks.filled_pipe import filled_pipe

HARNESSES: Final = {"codex": "Codex CLI", "claude": "Claude Code", "gemini": "Gemini CLI"}
"""The harnesses of the demonstration: adapter id and name."""


class HookStep(Struct, frozen=True):
    """One hook call: seconds since the first one, the hook's name, and what the harness wrote to its stdin."""

    at: float
    hook: str
    stdin: msgspec.Raw

    @property
    def session(self) -> str | None:
        """The harness's session id."""
        found = msgspec.json.decode(self.stdin, type=dict[str, object]).get("session_id")
        return found if isinstance(found, str) else None


class HookRecording(Struct, frozen=True):
    """The hook calls of one recorded run, in order."""

    adapter: str
    steps: tuple[HookStep, ...]


class HookResult(Struct, frozen=True):
    """What a hook process gave back to its harness."""

    adapter: str
    hook: str
    exit_code: int
    stdout: bytes


def load_recordings() -> list[HookRecording]:
    """Return all recordings that are shipped with the package, by harness and name."""
    decoder = msgspec.json.Decoder(HookStep)
    folder = resources.files("lifebus").joinpath("recordings")
    return [
        HookRecording(adapter, tuple(map(decoder.decode, file.read_bytes().splitlines())))
        for adapter in HARNESSES
        for file in sorted(folder.joinpath(adapter).iterdir(), key=lambda entry: entry.name)
    ]


def sessions_of(recordings: list[HookRecording]) -> list[tuple[str, str]]:
    """Return adapter id and session id of every recorded session, in order."""
    pairs = ((recording.adapter, step.session) for recording in recordings for step in recording.steps)
    return list(dict.fromkeys((adapter, session) for adapter, session in pairs if session))


class Replayer:
    """Runs hooks and collects their `results`.  `speed` divides the recorded pauses; None leaves them out."""

    def __init__(
        self, environment: Mapping[str, str], cwd: Path, speed: float | None, on_result: Callable[[HookResult], None]
    ) -> None:
        self.results: list[HookResult] = []
        self._environment = environment
        self._cwd = cwd
        self._speed = speed
        self._on_result = on_result
        self._script = str(resources.files("lifebus").joinpath("hook.py"))

    async def replay(self, recordings: list[HookRecording]) -> None:
        """Replay the recordings of one harness, one after the other."""
        for recording in recordings:
            begun = anyio.current_time()
            for step in recording.steps:
                if self._speed is not None:
                    await anyio.sleep_until(begun + step.at / self._speed)
                await self._call(recording.adapter, step)

    async def _call(self, adapter: str, step: HookStep) -> None:
        stdin = filled_pipe(bytes(step.stdin))
        try:
            ran = await anyio.run_process(
                # Exactly the command line that harnesses get.
                [sys.executable, "-I", "-S", self._script, adapter, step.hook],
                stdin=stdin,
                stderr=subprocess.DEVNULL,
                env=self._environment,
                cwd=self._cwd,
                check=False,
            )
        finally:
            os.close(stdin)
        result = HookResult(adapter, step.hook, ran.returncode, ran.stdout)
        self.results.append(result)
        self._on_result(result)
