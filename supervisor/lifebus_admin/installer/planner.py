"""What each file is to become: decided from the file and its record, before anything is written.  Pure.

A file that is wholly ours is never written over when it is not known to be ours, and never removed when it was edited
or another installation needs it.  Settings get back their exact bytes where nobody changed them since; otherwise only
our entries are removed.
"""

from typing import Final

import msgspec
from msgspec import Struct

from lifebus_adapters.shared.assets import Asset, OwnedFile, SettingsFile
from lifebus_admin.installer.file_state import TargetFile
from lifebus_admin.installer.formats.edit import text_installed, text_of, text_removed
from lifebus_admin.installer.plan import Action
from lifebus_admin.installer.records import InstallRecord
from lifebus_admin.installer.refusals import FileRefused

_NEW_SETTINGS_MODE: Final = 0o600


class FileChange(Struct, frozen=True, kw_only=True):
    """What a file is to hold (None: it is to go), with which mode; `exact` where these are the bytes from before us.

    `edited` where a file should go, and stays because somebody else wrote in it.
    """

    action: Action
    contents: bytes | None
    mode: int
    notes: tuple[str, ...] = ()
    exact: bool = False
    edited: bool = False


def plan_change(
    asset: Asset, file: TargetFile, record: InstallRecord | None, before: bytes | None, *, user: str, installs: bool
) -> FileChange:
    """Return what to make of a file; `before` are the bytes that the record's backup still holds.

    Raises:
        InstallRefused: the file is not ours to change, cannot be read, or ours do not fit.
    """
    if isinstance(asset, OwnedFile):
        return _install_own(asset, file, record) if installs else _remove_own(asset, file, record, user)
    return _install_settings(asset, file) if installs else _remove_settings(asset, file, record, before)


def _keep(file: TargetFile, *notes: str) -> FileChange:
    return FileChange(action="keep", contents=file.contents, mode=file.mode, notes=notes)


def _install_own(asset: OwnedFile, file: TargetFile, record: InstallRecord | None) -> FileChange:
    wanted = asset.contents.encode()
    if file.linked:
        raise FileRefused(asset.path, "a link stands where our file belongs", then="move it away, then try again")
    if file.contents is None:
        return FileChange(action="create", contents=wanted, mode=asset.mode)
    if file.contents == wanted:
        if file.mode == asset.mode:
            return _keep(file)
        note = f"its mode becomes {asset.mode:04o}, it is {file.mode:04o}"
        return FileChange(action="change", contents=wanted, mode=asset.mode, notes=(note,))
    if not _is_known(file, record):
        why = "another file stands there, or ours was edited"
        raise FileRefused(asset.path, why, then="move it away, then try again")
    return FileChange(action="change", contents=wanted, mode=asset.mode)


def _remove_own(asset: OwnedFile, file: TargetFile, record: InstallRecord | None, user: str) -> FileChange:
    if file.contents is None:
        return _keep(file)
    others = tuple(name for name in (record.users if record else ()) if name != user)
    if others:
        return _keep(file, f"kept: still needed by {', '.join(others)}")
    if file.linked or (file.contents != asset.contents.encode() and not _is_known(file, record)):
        note = "kept: it was edited, or never was ours; remove it by hand if it is not needed"
        return msgspec.structs.replace(_keep(file, note), edited=True)
    return FileChange(action="remove", contents=None, mode=file.mode)


def _is_known(file: TargetFile, record: InstallRecord | None) -> bool:
    return record is not None and file.digest in record.known


def _text(file: TargetFile) -> str | None:
    return None if file.contents is None else text_of(file.contents, file.path)


def _install_settings(asset: SettingsFile, file: TargetFile) -> FileChange:
    after = text_installed(_text(file), asset).encode()
    if after == (file.contents or b""):
        return _keep(file, *_notes(file))
    if file.contents is None:
        return FileChange(action="create", contents=after, mode=_NEW_SETTINGS_MODE)
    return FileChange(action="change", contents=after, mode=file.mode, notes=_notes(file))


def _remove_settings(
    asset: SettingsFile, file: TargetFile, record: InstallRecord | None, before: bytes | None
) -> FileChange:
    if file.contents is None:
        return _keep(file)
    if record is not None and _is_known(file, record):
        # The file still holds what we wrote, so the bytes from before us can come back exactly.
        # Where it has other names, it stays for them as an empty one.
        if record.made_file and file.links == 1:
            return FileChange(action="remove", contents=None, mode=file.mode, exact=True)
        if before is not None:
            return _changed(file, before, exact=True)
    after = text_removed(_text(file), asset)
    # A link, or a file that was there before us, stays as an empty one.
    is_kept = file.linked or file.links > 1 or (record is not None and not record.made_file)
    if after is None and is_kept:
        after = "" if asset.dialect == "yaml" else "{}\n"
    if after is None:
        return FileChange(action="remove", contents=None, mode=file.mode, notes=_notes(file))
    return _changed(file, after.encode(), exact=False)


def _changed(file: TargetFile, contents: bytes, *, exact: bool) -> FileChange:
    if contents == file.contents:
        return _keep(file)
    return FileChange(action="change", contents=contents, mode=file.mode, notes=_notes(file), exact=exact)


def _notes(file: TargetFile) -> tuple[str, ...]:
    notes = [f"a link: {file.real} is the file that changes"] if file.linked else []
    if file.links > 1:
        others = "the other one changes" if file.links == 2 else "the others change"  # noqa: PLR2004
        notes.append(f"it has {file.links} names (hard links): it is written in place, so that {others} with it")
    return tuple(notes)


def settings_hold_ours(asset: SettingsFile, file: TargetFile) -> bool:
    """Whether the settings contain anything of ours.

    Raises:
        SettingsUnreadable: they cannot be read.
    """
    text = _text(file)
    return text_removed(text, asset) != text
