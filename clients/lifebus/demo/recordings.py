"""Recorded hook calls of real harness sessions, as they are shipped with the package."""

from importlib import resources

import msgspec
from msgspec import Struct

HARNESSES = {"codex": "Codex CLI", "claude": "Claude Code", "gemini": "Gemini CLI"}
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


class Recording(Struct, frozen=True):
    """The hook calls of one recorded run, in order."""

    adapter: str
    name: str
    steps: tuple[HookStep, ...]


def load_recordings() -> list[Recording]:
    """Return all recordings, by harness and name."""
    decoder = msgspec.json.Decoder(HookStep)
    folder = resources.files("lifebus").joinpath("recordings")
    found: list[Recording] = []
    for adapter in HARNESSES:
        for file in sorted(folder.joinpath(adapter).iterdir(), key=lambda entry: entry.name):
            steps = tuple(decoder.decode(line) for line in file.read_bytes().splitlines())
            found.append(Recording(adapter, file.name.removesuffix(".jsonl"), steps))
    return found


def sessions_of(recordings: list[Recording]) -> list[tuple[str, str]]:
    """Return adapter id and session id of every recorded session, in order."""
    pairs = ((recording.adapter, step.session) for recording in recordings for step in recording.steps if step.session)
    return list(dict.fromkeys((adapter, session) for adapter, session in pairs if session))
