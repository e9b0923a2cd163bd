"""What each file is to become: decided from what was found and what is on record, before anything is written.  Pure.

A file that is wholly ours is never written over when it is not known to be ours, and never removed when it was edited
or another installation needs it.  Settings get back their exact bytes where nobody changed them since; otherwise ours
alone are taken out.
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
    asset: Asset, found: TargetFile, record: InstallRecord | None, before: bytes | None, *, user: str, installs: bool
) -> FileChange:
    """Return what to make of a file; `before` are the bytes that the record's backup still holds.

    Raises:
        InstallRefused: the file is not ours to change, cannot be read, or ours do not fit.
    """
    if isinstance(asset, OwnedFile):
        return _install_own(asset, found, record) if installs else _remove_own(asset, found, record, user)
    return _install_settings(asset, found) if installs else _remove_settings(asset, found, record, before)


def _keep(found: TargetFile, *notes: str) -> FileChange:
    return FileChange(action="keep", contents=found.contents, mode=found.mode, notes=notes)


def _install_own(asset: OwnedFile, found: TargetFile, record: InstallRecord | None) -> FileChange:
    wanted = asset.contents.encode()
    if found.linked:
        raise FileRefused(asset.path, "a link stands where our file belongs", then="move it away, then try again")
    if found.contents is None:
        return FileChange(action="create", contents=wanted, mode=asset.mode)
    if found.contents == wanted:
        if found.mode == asset.mode:
            return _keep(found)
        note = f"its mode becomes {asset.mode:04o}, it is {found.mode:04o}"
        return FileChange(action="change", contents=wanted, mode=asset.mode, notes=(note,))
    if not _is_known(found, record):
        why = "another file stands there, or ours was edited"
        raise FileRefused(asset.path, why, then="move it away, then try again")
    return FileChange(action="change", contents=wanted, mode=asset.mode)


def _remove_own(asset: OwnedFile, found: TargetFile, record: InstallRecord | None, user: str) -> FileChange:
    if found.contents is None:
        return _keep(found)
    others = tuple(name for name in (record.users if record else ()) if name != user)
    if others:
        return _keep(found, f"kept: still needed by {', '.join(others)}")
    if found.linked or (found.contents != asset.contents.encode() and not _is_known(found, record)):
        note = "kept: it was edited, or never was ours; remove it by hand if it is not needed"
        return msgspec.structs.replace(_keep(found, note), edited=True)
    return FileChange(action="remove", contents=None, mode=found.mode)


def _is_known(found: TargetFile, record: InstallRecord | None) -> bool:
    return record is not None and found.digest in record.known


def _text(found: TargetFile) -> str | None:
    return None if found.contents is None else text_of(found.contents, found.path)


def _install_settings(asset: SettingsFile, found: TargetFile) -> FileChange:
    after = text_installed(_text(found), asset).encode()
    if after == (found.contents or b""):
        return _keep(found, *_notes(found))
    if found.contents is None:
        return FileChange(action="create", contents=after, mode=_NEW_SETTINGS_MODE)
    return FileChange(action="change", contents=after, mode=found.mode, notes=_notes(found))


def _remove_settings(
    asset: SettingsFile, found: TargetFile, record: InstallRecord | None, before: bytes | None
) -> FileChange:
    if found.contents is None:
        return _keep(found)
    if record is not None and _is_known(found, record):
        if record.made_file:
            return FileChange(action="remove", contents=None, mode=found.mode, exact=True)
        if before is not None:
            return _changed(found, before, exact=True)
    after = text_removed(_text(found), asset)
    if after is None and (found.linked or (record is not None and not record.made_file)):
        after = "" if asset.dialect == "yaml" else "{}\n"
    if after is None:
        return FileChange(action="remove", contents=None, mode=found.mode, notes=_notes(found))
    return _changed(found, after.encode(), exact=False)


def _changed(found: TargetFile, contents: bytes, *, exact: bool) -> FileChange:
    if contents == found.contents:
        return _keep(found)
    return FileChange(action="change", contents=contents, mode=found.mode, notes=_notes(found), exact=exact)


def _notes(found: TargetFile) -> tuple[str, ...]:
    notes = [f"a link: {found.real} is the file that changes"] if found.linked else []
    if found.links > 1:
        notes.append(f"it has {found.links} names; the others will keep the old contents")
    return tuple(notes)


def settings_hold_ours(asset: SettingsFile, found: TargetFile) -> bool:
    """Whether anything of ours stands in the settings that were found.

    Raises:
        SettingsUnreadable: they cannot be read.
    """
    text = _text(found)
    return text_removed(text, asset) != text
