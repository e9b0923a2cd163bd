"""The status of an installation: what is there, what has drifted, and who else has hooks in the same settings.

See docs/hooks.md S6.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from lifebus_adapters.shared.assets import Asset, OwnedFile, SettingsFile
from lifebus_admin.installer.file_state import TargetFile, digest_of, read_target
from lifebus_admin.installer.formats.edit import parsed_settings, text_of
from lifebus_admin.installer.formats.settings_diff import ABSENT, is_ours, list_places, lookup, ours, same, to_install
from lifebus_admin.installer.in_place import is_torn
from lifebus_admin.installer.records import InstallRecords
from lifebus_admin.installer.refusals import InstallRefused
from lifebus_broker.disk import Disk

FileState = Literal["present", "missing", "drifted", "foreign", "unreadable"]
"""As requested; not there; ours, but another form or not all of it; somebody else's in our place; not readable."""


class ForeignHooks(Struct, frozen=True, kw_only=True):
    """How many hooks of others an event has; what they are is not reported."""

    event: str
    count: int


class FileStatus(Struct, frozen=True, kw_only=True):
    """One file: `installed` and `expected` are sha256, of the whole file or of our entries in it.

    `problem` says why it cannot be read, whose value is in the way, or what keeps the harness from running ours.
    """

    path: str
    kind: Literal["owned", "settings"]
    state: FileState
    expected: str
    installed: str | None = None
    foreign: tuple[ForeignHooks, ...] = ()
    problem: str | None = None


class Status(Struct, frozen=True, kw_only=True):
    """All files of an installation."""

    files: tuple[FileStatus, ...]

    @property
    def state(self) -> FileState:
        """The installation as a whole: the first of unreadable, foreign, drifted that any file is.

        Otherwise present or missing where all files are, and drifted where some are missing.
        """
        # One file that is missing is drift; only all of them are a missing installation.
        states = {file.state for file in self.files}
        # The one that needs a person first.
        worst: tuple[FileState, ...] = ("unreadable", "foreign", "drifted")
        for state in worst:
            if state in states:
                return state
        if len(states) == 1:
            return self.files[0].state
        return "drifted" if states else "missing"

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with any of the files, in words."""
        return tuple(file.problem for file in self.files if file.problem is not None)


def inspect(assets: Sequence[Asset], *, state_dir: Path) -> Status:
    """Return the status of the assets; nothing is written and nothing raised: what cannot be read is reported."""
    records = InstallRecords(state_dir, Disk())
    return Status(files=tuple(_status(asset, records) for asset in assets))


def _status(asset: Asset, records: InstallRecords) -> FileStatus:
    kind: Literal["owned", "settings"] = "owned" if isinstance(asset, OwnedFile) else "settings"
    expected = digest_of(asset.contents.encode()) if isinstance(asset, OwnedFile) else _digest(_wanted(asset))
    try:
        file = read_target(asset.path)
        write = records.unfinished(file.real)
        if write is not None and is_torn(file.contents, write):
            problem = "writing it was interrupted; `lifebus hooks install` or `lifebus hooks remove` mends it"
            return FileStatus(path=asset.path, kind=kind, state="unreadable", expected=expected, problem=problem)
        if isinstance(asset, OwnedFile):
            state, installed = _own_state(asset, file, records)
            return FileStatus(path=asset.path, kind=kind, state=state, expected=expected, installed=installed)
        return _settings_status(asset, file, expected)
    except InstallRefused as fault:
        problem = fault.detail
        return FileStatus(path=asset.path, kind=kind, state="unreadable", expected=expected, problem=problem)


def _own_state(asset: OwnedFile, file: TargetFile, records: InstallRecords) -> tuple[FileState, str | None]:
    if file.contents is None:
        return "missing", None
    if file.contents == asset.contents.encode() and not file.linked:
        return "present" if file.mode == asset.mode else "drifted", file.digest
    record = records.of(file.real)
    known = record is not None and file.digest in record.known
    return "drifted" if known else "foreign", file.digest


def _settings_status(asset: SettingsFile, file: TargetFile, expected: str) -> FileStatus:
    parsed = parsed_settings(None if file.contents is None else text_of(file.contents, file.path), asset)
    here = list(ours(parsed, asset))
    taken = [
        ".".join(entry.where)
        for entry in asset.entries
        if entry.kind == "member" and _is_taken(asset, lookup(parsed, entry.where), entry.where, entry.value)
    ]
    changes = to_install(parsed, asset)
    if changes.nothing:
        state: FileState = "present"
    elif taken:
        state = "foreign"
    else:
        state = "drifted" if here else "missing"
    entries: dict[str, list[Any]] = {}
    for path, value in here:
        entries.setdefault(".".join(step for step in path if isinstance(step, str)), []).append(value)
    return FileStatus(
        path=asset.path,
        kind="settings",
        state=state,
        expected=expected,
        installed=expected if changes.nothing else (_digest(entries) if here else None),
        foreign=_foreign(parsed, asset),
        problem=f"another value stands at {', '.join(taken)}" if taken else _fault(asset, parsed) if here else None,
    )


def _fault(asset: SettingsFile, parsed: Any) -> str | None:
    """Return what keeps the harness from running ours, though they are there."""
    return "; ".join(asset.check(parsed)) or None


def _is_taken(asset: SettingsFile, value: Any, where: tuple[str, ...], wanted: Any) -> bool:
    entry = next(entry for entry in asset.entries if entry.where == where)
    return value is not ABSENT and not same(value, wanted) and not is_ours(asset, entry, value)


def _wanted(asset: SettingsFile) -> dict[str, list[Any]]:
    entries: dict[str, list[Any]] = {}
    for entry in asset.entries:
        entries.setdefault(".".join(entry.where), []).append(entry.value)
    return entries


def _digest(entries: Any) -> str:
    return digest_of(msgspec.json.encode(entries, order="sorted"))


def _foreign(parsed: Any, asset: SettingsFile) -> tuple[ForeignHooks, ...]:
    file: list[ForeignHooks] = []
    for place in list_places(parsed, asset):
        count = sum(_count(element, asset) for element in lookup(parsed, place))
        if count:
            file.append(ForeignHooks(event=place[-1], count=count))
    return tuple(file)


def _count(element: Any, asset: SettingsFile) -> int:
    """Count the hooks of others: one, or as many as a matcher's group holds."""
    if asset.owns(element):
        return 0
    inner: Any = cast("Mapping[str, Any]", element).get("hooks") if isinstance(element, dict) else None
    if not isinstance(inner, list):
        return 1
    return sum(not asset.owns(hook) for hook in cast("Sequence[Any]", inner))
