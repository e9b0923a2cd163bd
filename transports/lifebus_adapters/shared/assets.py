"""What lifebus puts into a harness's settings, as data: files that are wholly ours, and entries in files that are not.

Nothing here touches a file.  Every hook command has one shape, so that it stays the same across upgrades (Codex trusts
hooks by a hash of the text) and so that ours differ from everybody else's:

    /bin/sh -c 'test -x "$0" || exit 0; exec "$0" "$@"' /…/lifebus-hook ADAPTER HOOK

When our launcher is gone the command ends with 0: harnesses read exit code 2 as a refusal (docs/hooks.md S7).
"""

import shlex
from collections.abc import Callable
from typing import Any, Final, Literal

from msgspec import Struct

from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_contract import IntegrationMode

LAUNCHER: Final = "lifebus-hook"
"""The name of the launcher; a command that runs a file of this name is ours."""

Scope = Literal["user", "project"]
"""Whether hooks go to the user's settings or to the project's."""

Dialect = Literal["json", "jsonc", "json5", "yaml"]
"""How a settings file is written: strict JSON, with comments and trailing commas, JSON5, or YAML."""

# Changing one byte here makes Codex distrust every installed hook until the user agrees again.
_GUARD: Final = 'test -x "$0" || exit 0; exec "$0" "$@"'


def hook_command(launcher: str, adapter_id: str, hook: str) -> str:
    """Return the command text of one hook; `launcher` is an absolute path."""
    return shlex.join(["/bin/sh", "-c", _GUARD, launcher, adapter_id, hook])


def is_hook_command(text: object) -> bool:
    """Whether a command in somebody's settings is one of ours."""
    if not isinstance(text, str):
        return False
    try:
        # Compared word by word: settings may have quoted the same command in another way.
        words = shlex.split(text)
    except ValueError:
        return False
    return len(words) >= 4 and words[:3] == ["/bin/sh", "-c", _GUARD] and words[3].endswith(f"/{LAUNCHER}")  # noqa: PLR2004


class InstallRequest(Struct, frozen=True, kw_only=True):
    """What a user asked to install: where, how, and the absolute path of the launcher that hooks are to run.

    `project` is the project's directory where the scope is the project.  `events` narrows the hooks; None means all.
    `python` is the interpreter for a launcher wrapper.  `status_line` asks for Claude Code's status line too.
    """

    mode: IntegrationMode
    scope: Scope
    surroundings: Surroundings
    launcher: str
    project: str | None = None
    events: tuple[str, ...] | None = None
    python: str = ""
    status_line: bool = False

    def wants(self, hook: str) -> bool:
        """Whether a hook is to be registered."""
        return self.events is None or hook in self.events


class OwnedFile(Struct, frozen=True, kw_only=True):
    """A file that is wholly ours: made, compared and removed as one.  `mode` is the file mode."""

    path: str
    contents: str
    mode: int = 0o600


class SettingsEntry(Struct, frozen=True, kw_only=True):
    """One thing of ours inside a settings file.

    An ``element`` is appended to the list at `where` (a path of keys; missing objects and the list are made); a
    ``member`` is set under the last key of `where`, and refused where somebody else's value stands there already.
    """

    kind: Literal["element", "member"]
    where: tuple[str, ...]
    value: Any


class SettingsFile(Struct, frozen=True, kw_only=True):
    """A settings file of the harness that takes entries of ours; all else in it belongs to others.

    `owns` says whether a value at an entry's place is ours, also one that an older version of lifebus wrote.
    `check` returns what the harness would refuse about the whole parsed result, and nothing where it is fine.
    """

    path: str
    dialect: Dialect
    entries: tuple[SettingsEntry, ...]
    owns: Callable[[Any], bool]
    check: Callable[[Any], tuple[str, ...]]


Asset = OwnedFile | SettingsFile
"""One file that an installation touches."""


class HookEvent(Struct, frozen=True, kw_only=True):
    """A hook that we register: its name, and the oldest version of the harness that is known to know it."""

    name: str
    since: tuple[int, ...]
    matcher: str | None = None
    timeout_s: int = 5
