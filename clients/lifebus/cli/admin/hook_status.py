"""`lifebus hooks status` on paper: files, hooks, launcher, trust."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lifebus.cli.terminal import clean, paint, put

if TYPE_CHECKING:
    from lifebus_adapters.codex.trust import HookTrust
    from lifebus_admin.harnesses.install_status import Launcher, Standing
    from lifebus_admin.installer.status import FileStatus

_COLORS: Final = {"present": "green", "missing": "yellow", "drifted": "yellow", "foreign": "red", "unreadable": "red"}
_MEANINGS: Final = {
    "present": "as installed",
    "missing": "not there",
    "drifted": "not as this version would install it; `lifebus hooks install` mends it",
    "foreign": "something else stands there",
    "unreadable": "cannot be read",
}
_TRUST_MEANINGS: Final = {
    "trusted": "trusted",
    "untrusted": "NOT TRUSTED: Codex does not run them",
    "modified": "CHANGED since they were trusted: Codex does not run them",
    "off": "switched off in Codex",
}


def plain_standing(standings: "Sequence[Standing]", launcher: "Launcher") -> dict[str, Any]:
    """Return everything as plain data."""
    return {
        "installations": [
            {**msgspec.to_builtins(one), "state": one.files.state, "sound": _is_sound(one)} for one in standings
        ],
        "launcher": {**msgspec.to_builtins(launcher), "state": launcher.files.state},
    }


def show_standing(standings: "Sequence[Standing]", launcher: "Launcher") -> None:
    """Print everything."""
    lines = [line for one in standings for line in _lines(one)]
    if _needs_launcher(standings):
        lines += _launcher_lines(launcher)
    for line in lines:
        put(line)


def is_sound(standings: "Sequence[Standing]", launcher: "Launcher") -> bool:
    """Whether nothing needs care."""
    runs = launcher.problem is None and launcher.files.state == "present"
    return all(_is_sound(one) for one in standings) and (runs or not _needs_launcher(standings))


def _needs_launcher(standings: "Sequence[Standing]") -> bool:
    return any(one.target.mode.value != "manual_skill" for one in standings)


def _is_sound(standing: "Standing") -> bool:
    trusted = all(hook.state == "trusted" for hook in standing.trust or ())
    there = standing.files.state == "present" and not standing.files.problems
    return there and trusted and standing.trust_problem is None


def _lines(standing: "Standing") -> Iterator[str]:
    yield paint(standing.target.label, "bold")
    for file in standing.files.files:
        yield from _file_lines(file)
    if standing.hooks:
        yield f"  hooks: {', '.join(clean(name) for name in standing.hooks)}"
    yield from _trust_lines(standing.trust or (), standing.trust_problem)


def _file_lines(file: "FileStatus") -> Iterator[str]:
    state = paint(_MEANINGS[file.state], _COLORS[file.state])
    yield f"  {clean(file.path)}: {state}"
    if file.problem:
        yield "    " + paint(clean(file.problem), "red")
    if file.foreign:
        others = ", ".join(f"{clean(one.event)} {one.count}" for one in file.foreign)
        yield f"    hooks of others: {others}"


def _trust_lines(trust: "Sequence[HookTrust]", problem: str | None) -> Iterator[str]:
    if problem is not None:
        yield "  " + paint(f"trust: {clean(problem)}", "yellow")
    for state in dict.fromkeys(hook.state for hook in trust):
        hooks = [hook.event for hook in trust if hook.state == state]
        which = f"all {len(hooks)}" if len(hooks) == len(trust) else ", ".join(map(clean, hooks))
        yield f"  trust: {which}: {paint(_TRUST_MEANINGS[state], 'green' if state == 'trusted' else 'yellow')}"
    if any(hook.state in {"untrusted", "modified"} for hook in trust):
        yield "  to trust them: start codex and accept them when it asks, or review them with /hooks"


def _launcher_lines(launcher: "Launcher") -> Iterator[str]:
    yield paint("launcher", "bold")
    for file in launcher.files.files:
        yield from _file_lines(file)
    if launcher.problem is not None:
        yield "  " + paint(clean(launcher.problem), "red")
    elif launcher.seconds is not None:
        yield f"  it runs, in {launcher.seconds * 1000:.0f} ms"
