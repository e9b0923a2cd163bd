"""What has to be known of a harness to run scenarios with it: its settings, its command lines, what it can refuse."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lifebus.live.sandbox import Ran, Sandbox

HookPoint = Literal["prompt", "tool", "stop"]
"""What a hook of somebody else can refuse."""


@dataclass(frozen=True)
class Installation:
    """A harness as it is installed: its program, and where it finds the programs that it needs.

    `plugin_kit` is a directory with the npm packages that OpenCode looks for beside its settings.  `compile_cache` is
    where programs in JavaScript keep what they compiled: without it each run of OpenClaw takes a minute.
    """

    file: Path
    more_path: tuple[str, ...] = ()
    plugin_kit: Path | None = None
    compile_cache: Path | None = None

    @property
    def variables(self) -> dict[str, str]:
        """The variables of its processes."""
        return {"NODE_COMPILE_CACHE": str(self.compile_cache)} if self.compile_cache else {}


@dataclass(frozen=True)
class Turn:
    """One run of the program: a prompt, the session to go on with, and further arguments.

    `trusting`: hooks run although nobody has trusted them.
    """

    prompt: str
    session: str | None = None
    arguments: tuple[str, ...] = ()
    trusting: bool = True


@dataclass(frozen=True)
class RefusingHook:
    """A hook that is not ours and refuses `times` times what comes at its point; `counter` is a file of its own."""

    point: HookPoint
    times: int
    counter: Path

    @property
    def shell(self) -> str:
        """A shell command that exits with 2 and a reason, as hooks refuse; later it lets everything pass."""
        return (
            f"n=$(cat {self.counter} 2>/dev/null || echo 0); [ $n -ge {self.times} ] && exit 0; "
            f"echo $((n+1)) >{self.counter}; echo Refused. >&2; exit 2"
        )


@dataclass(frozen=True)
class Preparation:
    """What a harness is prepared with: where the model answers, the program, and who refuses what."""

    model_url: str
    program: Installation
    refusal: RefusingHook | None = None


def command_hooks(refusal: RefusingHook, names: Mapping[HookPoint, str]) -> dict[str, Any]:
    """Return a refusing hook in the form that Codex, Claude Code and Gemini CLI share; `names` are the hooks' own."""
    hook = {"type": "command", "command": refusal.shell}
    return {names[refusal.point]: [{"hooks": [hook]}]}


@dataclass(frozen=True, kw_only=True)
class Asking:
    """How a harness is brought to ask a person whether its shell tool may be used.

    `prepare` completes its settings, `command` is its command line.  In a terminal it shows `dialog`, a word that
    stands nowhere else, and the keys `allow` allow the call once.  Without a dialog no terminal is needed: it asks as
    it always does, and answers itself.
    """

    prepare: Callable[[Sandbox], None]
    command: Callable[[Turn], list[str]]
    dialog: str = ""
    allow: bytes = b"\r"


@dataclass(frozen=True, kw_only=True)
class HarnessProgram:
    """A real program.  Its command lines name it by its adapter id, by which the sandbox's path finds it.

    `context_window` is the window in tokens that the fake model is said to have.  `compacting` are prompts, one a run
    of the same session, that make it compact; it is empty where nothing is known to.  `prepare` writes the program's
    own settings, without any hook of ours.  `environment` returns the variables that the program needs beside the
    sandbox's own, from the sandbox and the model's address.  `hook_failures` returns what the program says of hooks
    that failed, where it says anything.  `asking` is None where it says nothing of whom it asks.
    """

    adapter_id: str
    context_window: int
    compacting: tuple[str, ...]
    prepare: Callable[[Sandbox, Preparation], None]
    environment: Callable[[Sandbox, str], dict[str, str]]
    command: Callable[[Turn], list[str]]
    hook_failures: Callable[[Ran], list[str]]
    asking: Asking | None = None
