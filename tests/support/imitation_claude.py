"""A program that answers prompts and `/compact` with what the real Claude Code wrote once."""

import os
from collections.abc import Mapping
from pathlib import Path

from support.paths import REPOSITORY

RECORDED = REPOSITORY / "tests/data/one_shot"
SESSION_OF_PROMPT = "d18d9e73-f62f-4610-8755-b48b68ca2f3f"
SESSION_OF_COMPACTION = "bae60b00-d7f3-4bf0-bd0f-6de6e2a47c88"

_PROGRAM = """#!/bin/sh
for last; do :; done
case "$last" in /compact*) part=compact ;; *) part=prompt ;; esac
own="$CLAUDE_IMITATION/$part.$LIFEBUS_FLOW_STEP"
{ pwd; printf '%s\\n' "$@"; } > "$own.new"
mv "$own.new" "$own.seen"
if [ -p "$own.held" ]; then read -r line < "$own.held"; fi
cat "$own.out"
"""


class ImitationClaude:
    """The program `claude` in a folder of its own, with what it is to write for each step."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        program = folder / "claude"
        program.write_text(_PROGRAM)
        program.chmod(0o755)

    @property
    def variables(self) -> Mapping[str, str]:
        """What a broker needs in its environment to find it."""
        return {
            "PATH": f"{self._folder}:{os.defpath}",
            "HOME": str(self._folder),
            "CLAUDE_IMITATION": str(self._folder),
        }

    def answers(self, step_id: str, session: str) -> None:
        """Have the prompt of a step answered in this session, and the session compacted."""
        self.says("prompt", step_id, "ok", SESSION_OF_PROMPT, session)
        self.says("compact", step_id, "compacted", SESSION_OF_COMPACTION, session)

    def says(self, part: str, step_id: str, case: str, recorded: str = "", session: str = "") -> None:
        """Have it write a recording, with another session in the place of the recorded one."""
        text = (RECORDED / f"claude.{case}.out").read_text()
        (self._folder / f"{part}.{step_id}.out").write_text(text.replace(recorded, session) if recorded else text)

    def hold(self, part: str, step_id: str) -> None:
        """Have it wait before it answers, until `let_go`."""
        os.mkfifo(self._folder / f"{part}.{step_id}.held")

    def let_go(self, part: str, step_id: str) -> None:
        """End the waiting; blocks until it waits."""
        (self._folder / f"{part}.{step_id}.held").write_text("\n")

    def seen(self, part: str, step_id: str) -> list[str] | None:
        """Return the working directory and the arguments of its newest call for a step; None where there was none."""
        path = self._folder / f"{part}.{step_id}.seen"
        return path.read_text().splitlines() if path.exists() else None
