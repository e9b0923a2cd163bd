"""`lifebus hooks`: what lifebus puts into a coding harness's settings, and takes out again."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from cyclopts import App

from lifebus.cli.admin.hook_options import (
    ANY_TARGET,
    DEFAULT_INSTALL,
    DEFAULT_RUN,
    InstallOptions,
    RunOptions,
    TargetFilter,
    project_of,
)
from lifebus.cli.admin.host_place import harness_names, place_here
from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.confirm import confirm
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import clean, paint, put, put_json, say, say_lines

if TYPE_CHECKING:
    from lifebus.cli.admin.hook_plans import Proposal
    from lifebus_adapters.shared.hook_trust import HookTrust
    from lifebus_admin.harnesses.install_status import InstallStatus, LauncherStatus
    from lifebus_admin.harnesses.target import HostEnvironment, Target
    from lifebus_admin.installer.status import FileStatus

_WITHOUT_ASKING = "--yes does it without asking, --dry-run only shows it"

_NOT_KNOWN = "whether lifebus's hooks are there is not known until it can be read"

app = App(name="hooks")


@app.command
def plan(*harnesses: str, options: InstallOptions = DEFAULT_INSTALL, run: RunOptions = DEFAULT_RUN) -> ExitCode:
    """Show what `install` would change; nothing is written.

    Args:
        harnesses: The ids of the harnesses, such as claude; `lifebus contract manifest` lists them.
        options: What to install, and where.
        run: Whether to ask, and what to show.
    """
    return install(*harnesses, options=options, run=replace(run, dry_run=True))


@app.command
def install(*harnesses: str, options: InstallOptions = DEFAULT_INSTALL, run: RunOptions = DEFAULT_RUN) -> ExitCode:
    """Install hooks into harnesses, after a diff and a yes.

    Exit code 1 if a harness is too old for one of the hooks, or the answer was no.

    Args:
        harnesses: The ids of the harnesses, such as claude; `lifebus contract manifest` lists them.
        options: What to install, and where.
        run: Whether to ask, and what to show.
    """
    from lifebus.cli.admin.hook_plans import propose_install  # noqa: PLC0415

    # `remove` means all without a name; `install` must not.
    if not harnesses:
        raise UsageError(f"name a harness: {', '.join(harness_names())}")
    targets, place = options.targets(harnesses), place_here()
    proposals = [propose_install(place, target, skip_unknown=options.skip_unknown) for target in targets]
    refusals = [one.refusal for one in proposals if one.refusal is not None]
    if not refusals:
        return _carry_out(proposals, run)
    if run.json:
        put_json([one.plain() for one in proposals])
    for refusal in refusals:
        say_lines([refusal, "nothing was changed; --skip-unknown leaves these hooks out"])
    return ExitCode.NEGATIVE


@app.command
def remove(*harnesses: str, which: TargetFilter = ANY_TARGET, run: RunOptions = DEFAULT_RUN) -> ExitCode:
    """Take lifebus out of harnesses, after a diff and a yes; without a name, out of all.

    Args:
        harnesses: The ids of the harnesses; by default all that are installed.
        which: Which of their installations are meant.
        run: Whether to ask, and what to show.
    """
    from lifebus.cli.admin.hook_plans import propose_removal  # noqa: PLC0415

    place, named = place_here(), which.install_options.targets(harnesses or harness_names()[:1])
    targets = [one for one in _installed(place, harnesses, which.project) if which.matches(one)]
    unreadable = [] if harnesses else [one for one in _unreadable(place, (), which.project) if which.matches(one)]
    if targets or harnesses:
        done = _carry_out([propose_removal(place, target) for target in targets or named], run)
    else:
        done = _nothing_installed(json=run.json) if run.json or not unreadable else ExitCode.OK
    return _say_unreadable(place, unreadable) or done


@app.command
def status(*harnesses: str, project: Path | None = None, json: bool = False) -> ExitCode:
    """Show what is installed and whether it works; exit code 1 if something needs attention, or cannot be read.

    Args:
        harnesses: The ids of the harnesses; by default all that are installed.
        project: A project whose settings are read, too.
        json: Answer in JSON.
    """
    from lifebus_admin.harnesses.install_status import install_status, launcher_health  # noqa: PLC0415

    place = place_here()
    targets = [*_installed(place, harnesses, project), *_unreadable(place, harnesses, project)]
    if not targets:
        return _nothing_installed(json=json)
    statuses, launcher = [install_status(place, target) for target in targets], launcher_health(place)
    if json:
        put_json(plain_standing(statuses, launcher))
    else:
        show_standing(statuses, launcher)
    return ExitCode.OK if is_sound(statuses, launcher) else ExitCode.NEGATIVE


@app.command(name="test")
def try_out(
    *harnesses: str, project: Path | None = None, connection: ConnectionOptions = DEFAULT_CONNECTION
) -> ExitCode:
    """Send a canary through every installed hook, and show that it arrives; exit code 1 if one does not.

    Args:
        harnesses: The ids of the harnesses; by default all that are installed.
        project: A project whose hooks are tried, too.
        connection: Where the broker is, and the form of the answer.
    """
    from lifebus.cli.admin.hook_canary import send_canaries, show_canaries  # noqa: PLC0415

    place = place_here()
    targets, unreadable = _installed(place, harnesses, project), _unreadable(place, harnesses, project)
    if not targets:
        if connection.json or not unreadable:
            _nothing_installed(json=connection.json)
        return _say_unreadable(place, unreadable)
    canaries = send_canaries(place, targets, connection)
    if connection.json:
        put_json(canaries)
    else:
        show_canaries(canaries)
    arrived = all(one.arrived is not False for one in canaries)
    return _say_unreadable(place, unreadable) or (ExitCode.OK if arrived else ExitCode.NEGATIVE)


def _installed(place: "HostEnvironment", harnesses: tuple[str, ...], project: Path | None) -> "list[Target]":
    """Return what is installed, of the named harnesses or of all."""
    from lifebus_admin.harnesses.target import installed_targets  # noqa: PLC0415

    wanted = _ids(harnesses)
    return [one for one in installed_targets(place, project_of(project)) if one.adapter_id in wanted]


def _unreadable(place: "HostEnvironment", harnesses: tuple[str, ...], project: Path | None) -> "list[Target]":
    """Return what may be installed, of the named harnesses or of all: its files cannot be read."""
    from lifebus_admin.harnesses.target import unreadable_targets  # noqa: PLC0415

    wanted = _ids(harnesses)
    return [one for one in unreadable_targets(place, project_of(project)) if one.adapter_id in wanted]


def _ids(harnesses: tuple[str, ...]) -> set[str]:
    return {target.adapter_id for target in DEFAULT_INSTALL.targets(harnesses or harness_names())}


def _say_unreadable(place: "HostEnvironment", targets: "list[Target]") -> ExitCode:
    """Report what nobody can say of these targets; the exit code is OK where there are none."""
    from lifebus_admin.harnesses.install_status import install_status  # noqa: PLC0415

    problems = [problem for target in targets for problem in install_status(place, target).files.problems]
    for problem in dict.fromkeys(problems):
        say_lines([problem, _NOT_KNOWN])
    return ExitCode.NEGATIVE if problems else ExitCode.OK


def _nothing_installed(*, json: bool) -> ExitCode:
    if json:
        put_json([])
    else:
        say("nothing is installed; `lifebus hooks install HARNESS` does it")
    return ExitCode.OK


def _show(proposals: "list[Proposal]", *, full: bool) -> None:
    """Print the plans, and at the end what they come to: the diffs of several harnesses fill more than a screen."""
    for one in proposals:
        one.show(full=full)
    for one in proposals:
        one.sum_up()


def _carry_out(proposals: "list[Proposal]", run: RunOptions) -> ExitCode:
    """Show the plans, ask, carry them out, and show what was done."""
    if not run.json:
        _show(proposals, full=run.full)
    # Asked once for all harnesses: a plan that changes nothing needs no yes.
    if not run.dry_run and any(not one.plan.nothing for one in proposals):
        if not run.yes and not confirm(json=run.json, otherwise=_WITHOUT_ASKING):
            say("nothing was changed")
            return ExitCode.NEGATIVE
        for one in proposals:
            one.carry_out()
    if run.json:
        put_json([one.plain() for one in proposals])
    elif not run.dry_run:
        for one in proposals:
            one.show_report()
        if any(one.adds_hooks for one in proposals):
            from lifebus.cli.admin.hook_next import propose_next  # noqa: PLC0415

            propose_next(asks=not run.yes)
    return ExitCode.OK


_COLORS: Final = {"present": "green", "missing": "yellow", "drifted": "yellow", "foreign": "red", "unreadable": "red"}
_MEANINGS: Final = {
    "present": "as installed",
    "missing": "not there",
    "drifted": "not as this version would install it; `lifebus hooks install` mends it",
    "foreign": "something else is there",
    "unreadable": "cannot be read",
}
_TRUST_MEANINGS: Final = {
    "trusted": "trusted",
    "untrusted": "NOT TRUSTED: {name} does not run them",
    "modified": "CHANGED since they were trusted: {name} does not run them",
    "off": "switched off in {name}",
}


def plain_standing(statuses: "Sequence[InstallStatus]", launcher: "LauncherStatus") -> dict[str, Any]:
    """Return every installation and the launcher as plain data."""
    return {
        "installations": [
            {**msgspec.to_builtins(one), "state": one.files.state, "sound": _is_sound(one)} for one in statuses
        ],
        "launcher": {**msgspec.to_builtins(launcher), "state": launcher.files.state},
    }


def show_standing(statuses: "Sequence[InstallStatus]", launcher: "LauncherStatus") -> None:
    """Print every installation, and the launcher where one is needed."""
    lines = [line for one in statuses for line in _lines(one)]
    if _needs_launcher(statuses):
        lines += _launcher_lines(launcher)
    for line in lines:
        put(line)


def is_sound(statuses: "Sequence[InstallStatus]", launcher: "LauncherStatus") -> bool:
    """Whether every installation, and the launcher where one is needed, works."""
    runs = launcher.problem is None and launcher.files.state == "present"
    return all(_is_sound(one) for one in statuses) and (runs or not _needs_launcher(statuses))


def _needs_launcher(statuses: "Sequence[InstallStatus]") -> bool:
    # Behind files that cannot be read there may be nothing of ours.
    return any(one.target.mode.value != "manual_skill" and one.files.state != "unreadable" for one in statuses)


def _is_sound(status: "InstallStatus") -> bool:
    trusted = all(hook.state == "trusted" for hook in status.trust or ())
    there = status.files.state == "present" and not status.files.problems
    return there and trusted and status.trust_problem is None


def _lines(status: "InstallStatus") -> Iterator[str]:
    yield paint(status.target.label, "bold")
    for file in status.files.files:
        yield from _file_lines(file)
    if status.files.state == "unreadable":
        yield f"  {_NOT_KNOWN}"
    if status.hooks:
        yield f"  hooks: {', '.join(clean(name) for name in status.hooks)}"
    yield from _trust_lines(status.target.adapter_id, status.trust or (), status.trust_problem)


def _file_lines(file: "FileStatus") -> Iterator[str]:
    state = paint(_MEANINGS[file.state], _COLORS[file.state])
    yield f"  {clean(file.path)}: {state}"
    if file.problem:
        yield "    " + paint(clean(file.problem), "red")
    if file.foreign:
        others = ", ".join(f"{clean(one.event)} {one.count}" for one in file.foreign)
        yield f"    hooks of others: {others}"


def _trust_lines(adapter_id: str, trust: "Sequence[HookTrust]", problem: str | None) -> Iterator[str]:
    from lifebus_adapters import ADAPTERS  # noqa: PLC0415

    harness = ADAPTERS[adapter_id]
    if problem is not None:
        yield "  " + paint(f"trust: {clean(problem)}", "yellow")
    for state in dict.fromkeys(hook.state for hook in trust):
        hooks = [hook.event for hook in trust if hook.state == state]
        meaning = _TRUST_MEANINGS[state].format(name=harness.assets.name)
        which = f"all {len(hooks)}" if len(hooks) == len(trust) else ", ".join(map(clean, hooks))
        yield f"  trust: {which}: {paint(meaning, 'green' if state == 'trusted' else 'yellow')}"
    if harness.trust is not None and any(hook.state in {"untrusted", "modified"} for hook in trust):
        yield f"  to trust them: {harness.trust.remedy}"


def _launcher_lines(launcher: "LauncherStatus") -> Iterator[str]:
    yield paint("launcher", "bold")
    for file in launcher.files.files:
        yield from _file_lines(file)
    if launcher.problem is not None:
        yield "  " + paint(clean(launcher.problem), "red")
    elif launcher.seconds is not None:
        yield f"  it runs, in {launcher.seconds * 1000:.0f} ms"
