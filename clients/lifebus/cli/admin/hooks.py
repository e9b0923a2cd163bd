"""`lifebus hooks`: what lifebus puts into a coding harness's settings, and takes out again."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from lifebus.cli.admin.hook_options import (
    ALL,
    ANY_WISH,
    ASK,
    InstallOptions,
    RunOptions,
    TargetFilter,
    harness_names,
    place_here,
    project_of,
)
from lifebus.cli.arguments import DEFAULTS, Connecting, UsageError
from lifebus.cli.confirm import agreed
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import paint, put, put_json, say

if TYPE_CHECKING:
    from lifebus.cli.admin.hook_plans import Proposal
    from lifebus_admin.harnesses.target import Place, Target

_WITHOUT_ASKING = "--yes does it without asking, --dry-run only shows it"

app = App(name="hooks")


@app.command
def plan(*harnesses: str, wish: InstallOptions = ANY_WISH, doing: RunOptions = ASK) -> ExitCode:
    """Show what `install` would change; nothing is written.

    Args:
        harnesses: claude, codex, gemini, opencode, hermes or openclaw.
        wish: What to install, and where.
        doing: How to go about it.
    """
    return install(*harnesses, wish=wish, doing=replace(doing, dry_run=True))


@app.command
def install(*harnesses: str, wish: InstallOptions = ANY_WISH, doing: RunOptions = ASK) -> ExitCode:
    """Install hooks into harnesses, after a diff and a yes.

    Exit code 1 if a harness is too old for one of the hooks, or the answer was no.

    Args:
        harnesses: claude, codex, gemini, opencode, hermes or openclaw.
        wish: What to install, and where.
        doing: How to go about it.
    """
    from lifebus.cli.admin.hook_plans import propose_install  # noqa: PLC0415

    if not harnesses:
        raise UsageError(f"name a harness: {', '.join(harness_names())}")
    targets, place = wish.targets(harnesses), place_here()
    proposals = [propose_install(place, target, skip_unknown=wish.skip_unknown) for target in targets]
    refusals = [one.refusal for one in proposals if one.refusal is not None]
    if not refusals:
        return _carry_out(proposals, doing)
    if doing.json:
        put_json([one.plain() for one in proposals])
    for refusal in refusals:
        say(f"lifebus: {refusal}", color="red")
    say("  nothing was changed; --skip-unknown leaves these hooks out")
    return ExitCode.NEGATIVE


@app.command
def remove(*harnesses: str, which: TargetFilter = ALL, doing: RunOptions = ASK) -> ExitCode:
    """Take lifebus out of harnesses, after a diff and a yes; without a name, out of all.

    Args:
        harnesses: claude, codex, gemini, opencode, hermes or openclaw; all that are installed, unless told.
        which: Which of their installations are meant.
        doing: How to go about it.
    """
    from lifebus.cli.admin.hook_plans import propose_removal  # noqa: PLC0415

    place, named = place_here(), which.wish.targets(harnesses or harness_names()[:1])
    targets = [one for one in _installed(place, harnesses, which.project) if which.takes(one)]
    if not targets and not harnesses:
        return _nothing_installed(json=doing.json)
    return _carry_out([propose_removal(place, target) for target in targets or named], doing)


@app.command
def status(*harnesses: str, project: Path | None = None, json: bool = False) -> ExitCode:
    """Show what is installed and how it stands; exit code 1 if something needs care.

    Args:
        harnesses: claude, codex, gemini, opencode, hermes or openclaw; all that are installed, unless told.
        project: A project whose settings are looked at, too.
        json: Answer in JSON.
    """
    from lifebus.cli.admin.hook_status import is_sound, plain_standing, show_standing  # noqa: PLC0415
    from lifebus_admin.harnesses.install_status import launcher_health, standing_of  # noqa: PLC0415

    place = place_here()
    targets = _installed(place, harnesses, project)
    if not targets:
        return _nothing_installed(json=json)
    standings, launcher = [standing_of(place, target) for target in targets], launcher_health(place)
    if json:
        put_json(plain_standing(standings, launcher))
    else:
        show_standing(standings, launcher)
    return ExitCode.OK if is_sound(standings, launcher) else ExitCode.NEGATIVE


@app.command(name="test")
def try_out(*harnesses: str, project: Path | None = None, connecting: Connecting = DEFAULTS) -> ExitCode:
    """Send a canary through every installed hook, and show that it arrives; exit code 1 if one does not.

    Args:
        harnesses: claude, codex, gemini, opencode, hermes or openclaw; all that are installed, unless told.
        project: A project whose hooks are tried, too.
        connecting: Where the broker is, and the form of the answer.
    """
    from lifebus.cli.admin.hook_canary import send_canaries, show_canaries  # noqa: PLC0415

    place = place_here()
    targets = _installed(place, harnesses, project)
    if not targets:
        return _nothing_installed(json=connecting.json)
    canaries = send_canaries(place, targets, connecting)
    if connecting.json:
        put_json(canaries)
    else:
        show_canaries(canaries)
    return ExitCode.OK if all(one.arrived is not False for one in canaries) else ExitCode.NEGATIVE


def _installed(place: "Place", harnesses: tuple[str, ...], project: Path | None) -> "list[Target]":
    """Return what is installed, of the named harnesses or of all."""
    from lifebus_admin.harnesses.target import installed_targets  # noqa: PLC0415

    wanted = {target.adapter_id for target in ANY_WISH.targets(harnesses or harness_names())}
    return [one for one in installed_targets(place, project_of(project)) if one.adapter_id in wanted]


def _nothing_installed(*, json: bool) -> ExitCode:
    if json:
        put_json([])
    else:
        say("nothing is installed; `lifebus hooks install HARNESS` does it")
    return ExitCode.OK


def _carry_out(proposals: "list[Proposal]", doing: RunOptions) -> ExitCode:
    """Show, ask, do, and tell what was done."""
    if not doing.json:
        for one in proposals:
            one.show(full=doing.full)
    if not doing.dry_run and any(not one.plan.nothing for one in proposals):
        if not doing.yes and not agreed(json=doing.json, otherwise=_WITHOUT_ASKING):
            say("nothing was changed")
            return ExitCode.NEGATIVE
        for one in proposals:
            one.carry_out()
    if doing.json:
        put_json([one.plain() for one in proposals])
    elif not doing.dry_run:
        for one in proposals:
            one.tell()
        if any(one.adds_hooks for one in proposals):
            put(f"{paint('next:', 'bold')} Start the broker: lifebus up. Then try every hook: lifebus hooks test.")
    return ExitCode.OK
