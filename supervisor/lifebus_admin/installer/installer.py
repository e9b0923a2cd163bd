"""Install what lifebus needs into a harness, and take it out again: plan, then apply.

See docs/hooks.md, "What is promised".

`plan_install` and `plan_removal` write nothing; `apply` does what a plan says, with the files as they are by then.  Our
own files come first when installing and last when removing, so that no settings ever name a file that is not there.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from lifebus_adapters.shared.assets import Asset, InstallRequest, OwnedFile
from lifebus_admin.installer.file_state import TargetFile
from lifebus_admin.installer.formats.edit import text_of
from lifebus_admin.installer.plan import FilePlan, InstallPlan
from lifebus_admin.installer.planner import FileChange
from lifebus_admin.installer.records import InstallRecords
from lifebus_admin.installer.transaction import FileDone, Transaction
from lifebus_broker.disk import Disk


class Report(Struct, frozen=True, kw_only=True):
    """What was done, file by file, in the order in which it was done."""

    files: tuple[FileDone, ...]

    @property
    def changed(self) -> bool:
        """Whether any file is another one than before."""
        return any(file.action != "keep" for file in self.files)


def plan_install(
    assets: Sequence[Asset], *, adapter_id: str, request: InstallRequest, state_dir: Path, advice: Sequence[str] = ()
) -> InstallPlan:
    """Return what installing the assets would do; nothing is written.

    Raises:
        InstallRefused: any of the files cannot be read, is not ours to change, or ours do not fit into it.
    """
    return _plan(assets, adapter_id, request, state_dir, advice, installs=True)


def plan_removal(
    assets: Sequence[Asset], *, adapter_id: str, request: InstallRequest, state_dir: Path, advice: Sequence[str] = ()
) -> InstallPlan:
    """Return what removing the assets would do; nothing is written.  The request is that of the installation.

    Raises:
        InstallRefused: as `plan_install`.
    """
    return _plan(assets, adapter_id, request, state_dir, advice, installs=False)


def apply(plan: InstallPlan, *, state_dir: Path, stamp: str, disk: Disk | None = None) -> Report:
    """Do what the plan says, with the files as they are now; `stamp` (UTC) names the backups.

    Every file is checked before the first one is changed.  Where one refuses later, those before it are done, and
    running it again, or the removal, goes on from there.

    Raises:
        InstallRefused: as `plan_install`; `FileBusy` where somebody else kept changing a file.
        LifebusError: the state directory is not ours alone.
    """
    system = disk or Disk()
    records = InstallRecords(state_dir, system)
    with records.held():
        transaction = Transaction(records, system, stamp=stamp, user=plan.user, installs=plan.installs)
        # One refusal stops the whole before anything has changed.
        for asset in plan.assets:
            transaction.recover(asset)
            transaction.plan(asset)
        return Report(files=tuple(transaction.carry_out(asset) for asset in plan.assets))


def _plan(
    assets: Sequence[Asset],
    adapter_id: str,
    request: InstallRequest,
    state_dir: Path,
    advice: Sequence[str],
    *,
    installs: bool,
) -> InstallPlan:
    user = ":".join((adapter_id, request.mode, request.scope, *([request.project] if request.project else [])))
    ordered = sorted(assets, key=lambda asset: not isinstance(asset, OwnedFile))
    if not installs:
        ordered.reverse()
    disk = Disk()
    transaction = Transaction(InstallRecords(state_dir, disk), disk, stamp="", user=user, installs=installs)
    files: list[FilePlan] = []
    for asset in ordered:
        file, _, change = transaction.plan(asset)
        files.append(_file_plan(file, change))
    return InstallPlan(
        adapter_id=adapter_id,
        mode=request.mode,
        scope=request.scope,
        installs=installs,
        user=user,
        assets=tuple(ordered),
        files=tuple(files),
        advice=tuple(advice),
    )


def _file_plan(file: TargetFile, change: FileChange) -> FilePlan:
    return FilePlan(
        path=file.path,
        action=change.action,
        before=_shown(file.contents, file.path),
        after=_shown(change.contents, file.path),
        mode=change.mode,
        notes=change.notes,
        edited=change.edited,
    )


def _shown(contents: bytes | None, path: str) -> str | None:
    return None if contents is None else text_of(contents, path)
