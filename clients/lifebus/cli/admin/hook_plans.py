"""What `lifebus hooks install` and `remove` propose, show and do."""

import time
from typing import TYPE_CHECKING, Any

import msgspec

from lifebus.cli.terminal import clean, paint, put

if TYPE_CHECKING:
    from lifebus_admin.harnesses.target import HostEnvironment, Target
    from lifebus_admin.harnesses.versions import InstalledProgram
    from lifebus_admin.installer.installer import Report
    from lifebus_admin.installer.plan import FilePlan, InstallPlan

_COLORS = {"+": "green", "-": "red", "@": "cyan"}
_DONE = {"create": "made", "change": "changed", "remove": "removed", "keep": "kept"}


class Proposal:
    """One target, its plan, and what became of it."""

    def __init__(
        self, place: "HostEnvironment", target: "Target", plan: "InstallPlan", *, notes: tuple[str, ...] = ()
    ) -> None:
        self.place = place
        self.target = target
        self.plan = plan
        self.notes = notes
        self.refusal: str | None = None
        self.report: Report | None = None

    def show(self, *, full: bool) -> None:
        """Print what is going to be done: a diff of what belongs to others, a line for each file of ours."""
        put(paint(self.target.label, "bold"))
        for note in self.notes:
            put(f"  {clean(note)}")
        if self.plan.nothing:
            put("  already installed" if self.plan.installs else "  nothing to remove")
        for file in self.plan.files:
            if file.action == "keep" and not (full or file.edited):
                continue
            for note in file.notes:
                put(f"  {clean(file.path)}: {clean(note)}")
            if file.action != "keep":
                self._show_file(file, full=full)

    def sum_up(self) -> None:
        """Print how many lines come and go in each file of others, in a line that stands beside the question."""
        for file in self.plan.files:
            if file.action == "keep" or self._is_ours(file):
                continue
            # The first two lines name the file.
            marks = [line[:1] for line in file.diff.splitlines()[2:]]
            put(f"{clean(file.path)}: {marks.count('+')} lines added, {marks.count('-')} removed")

    def _is_ours(self, file: "FilePlan") -> bool:
        from lifebus_adapters.shared.assets import OwnedFile  # noqa: PLC0415

        return any(isinstance(asset, OwnedFile) and asset.path == file.path for asset in self.plan.assets)

    def _show_file(self, file: "FilePlan", *, full: bool) -> None:
        # A file of ours is long and always the same; of others' files every changed line is shown.
        if self._is_ours(file) and not full:
            lines = (file.after if file.after is not None else file.before or "").count("\n")
            put(f"  {file.action} {clean(file.path)} ({lines} lines, lifebus's own, mode {file.mode:04o})")
            return
        # Tabs are kept: `clean` would escape them, and settings files are indented with them.
        for line in file.diff.splitlines():
            put("  " + paint("\t".join(map(clean, line.split("\t"))), _COLORS.get(line[:1], "")))

    def carry_out(self) -> None:
        """Do what the plan says.

        Raises:
            InstallRefused: a file is not ours to change, or another program kept changing it.
        """
        from lifebus_admin.installer.installer import apply  # noqa: PLC0415

        # UTC, so that copies sort by time whatever the zone.
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self.report = apply(self.plan, state_dir=self.place.state_dir, stamp=stamp)

    @property
    def adds_hooks(self) -> bool:
        """Whether hooks were installed just now that were not there before."""
        runs = self.plan.installs and self.target.mode.value != "manual_skill"
        return runs and self.report is not None and self.report.changed

    def show_report(self) -> None:
        """Print what was done, and what the user has to do beside."""
        for done in self.report.files if self.report is not None else ():
            if done.action != "keep":
                put(f"{_DONE[done.action]} {clean(done.path)}" + (f" (copy: {done.backup})" if done.backup else ""))
        for sentence in self.plan.advice:
            put(f"{paint('next:', 'bold')} {clean(sentence)}")

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            **msgspec.to_builtins(self.target),
            "refusal": self.refusal,
            "notes": self.notes,
            "already": self.plan.nothing,
            "files": [
                {
                    "path": file.path,
                    "action": file.action,
                    "mode": f"{file.mode:04o}",
                    "diff": file.diff,
                    "notes": file.notes,
                }
                for file in self.plan.files
            ],
            "done": None if self.report is None else msgspec.to_builtins(self.report.files),
            "advice": self.plan.advice,
        }


def propose_install(place: "HostEnvironment", target: "Target", *, skip_unknown: bool = False) -> Proposal:
    """Return what installing would do; with a refusal where the harness does not know one of the hooks.

    Raises:
        InstallRefused: a file cannot be read, or is not ours to change.
    """
    from lifebus_adapters import ADAPTERS  # noqa: PLC0415
    from lifebus_admin.harnesses.target import install_request, plan_target  # noqa: PLC0415
    from lifebus_admin.harnesses.versions import installed_version, unknown_events, version_text  # noqa: PLC0415
    from lifebus_contract import IntegrationMode  # noqa: PLC0415

    if target.mode is not IntegrationMode.NATIVE_HOOK:
        return Proposal(place, target, plan_target(place, target, installs=True))
    assets = ADAPTERS[target.adapter_id].assets
    installed = installed_version(assets, place.surroundings.environ)
    request = install_request(place, target)
    unknown = unknown_events(assets, request, installed.version)
    notes = (*_version_notes(assets.program, installed), *_twin_notes(place, target))
    # An older harness may reject a whole settings file for one hook that it does not know.
    if unknown and skip_unknown:
        left_out = {event.name for event in unknown}
        kept = tuple(event.name for event in assets.events if request.wants(event.name) and event.name not in left_out)
        target = msgspec.structs.replace(target, events=kept)
        notes = (*notes, f"left out, because this version does not know them: {', '.join(sorted(left_out))}")
    proposal = Proposal(place, target, plan_target(place, target, installs=True), notes=notes)
    if unknown and not skip_unknown:
        listed = ", ".join(f"{event.name} ({version_text(event.since)})" for event in unknown)
        known_version = version_text(installed.version or ())
        proposal.refusal = f"{assets.program} is {known_version}, and these hooks are known of later versions: {listed}"
    return proposal


def propose_removal(place: "HostEnvironment", target: "Target") -> Proposal:
    """Return what removing would do.

    Raises:
        InstallRefused: a file cannot be read, or is not ours to change.
    """
    from lifebus_admin.harnesses.target import plan_target  # noqa: PLC0415

    return Proposal(place, target, plan_target(place, target, installs=False))


def _twin_notes(place: "HostEnvironment", target: "Target") -> tuple[str, ...]:
    """Say where else the same hooks are: the harness runs both, and each reports."""
    from lifebus_admin.harnesses.target import installed_targets  # noqa: PLC0415

    twins = [
        one.label
        for one in installed_targets(place, target.project)
        if (one.adapter_id, one.mode) == (target.adapter_id, target.mode) and one.label != target.label
        if None in {one.project, target.project}
    ]
    if not twins:
        return ()
    return (f"installed already: {', '.join(twins)}; where both apply, every event is reported twice",)


def _version_notes(program: str, installed: "InstalledProgram") -> tuple[str, ...]:
    from lifebus_admin.harnesses.versions import version_text  # noqa: PLC0415

    if installed.program is None:
        return (f"{program} is not on PATH: its version is not known, all hooks are taken",)
    if installed.version is None:
        return (f"{installed.program} does not say its version: all hooks are taken",)
    return (f"{installed.program} is {version_text(installed.version)}",)
