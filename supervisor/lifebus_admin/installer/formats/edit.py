"""One settings file, from its text to its new text: read, decide, edit, and prove before anybody writes.  Pure.

Whatever the dialect, the result is read again before it is handed out: everything that is not ours must be the same as
before, ours must be exactly what was requested, and the harness must have nothing to say against the whole.
"""

import marshal
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from lifebus_adapters.shared.assets import Dialect, SettingsEntry, SettingsFile
from lifebus_admin.installer.formats.json_edit import JsonText
from lifebus_admin.installer.formats.json_scanner import scan, track_of
from lifebus_admin.installer.formats.settings_diff import (
    Changes,
    Path,
    same,
    to_install,
    to_remove,
    tracked_paths,
    without_ours,
)
from lifebus_admin.installer.formats.yaml_edit import YamlText
from lifebus_admin.installer.formats.yaml_nodes import load
from lifebus_admin.installer.refusals import SettingsConflict, SettingsUnreadable
from lifebus_contract import InternalError

BYTE_ORDER_MARK: Final = "\ufeff"
"""Some editors begin a file with it; it is kept."""


class _Text(Protocol):
    """What a dialect can do."""

    value: Any

    def without(self, cuts: Sequence[Path], puts: Sequence[tuple[Path, Any]]) -> str | None: ...

    def with_added(self, entries: Sequence[SettingsEntry]) -> str: ...


def text_of(contents: bytes, name: str) -> str:
    """Return a file's text as it is, line ends and all.

    Raises:
        SettingsUnreadable: it is not UTF-8.
    """
    try:
        return contents.decode()
    except UnicodeDecodeError as fault:
        raise SettingsUnreadable(name, f"byte {fault.start} is not UTF-8") from None


def parsed_settings(text: str | None, settings: SettingsFile) -> Any:
    """Return what the settings say; those of a missing or blank file say nothing, an empty object.

    Raises:
        SettingsUnreadable: the text breaks the dialect's rules.
    """
    return _opened(text, settings).value


def text_installed(text: str | None, settings: SettingsFile) -> str:
    """Return the settings' text with exactly the requested entries of ours in it; the same text where they are there.

    Raises:
        SettingsUnreadable: the text breaks the dialect's rules.
        SettingsConflict: ours do not fit, or the harness would refuse the whole.
    """
    opened = _opened(text, settings)
    changes = to_install(opened.value, settings)
    # The same text, not an equal one: a file that is right is never rewritten.
    if changes.nothing:
        return text or ""
    # Cut first and add then: positions are those of one text.
    thinned = opened.without(changes.cuts, changes.puts) if changes.cuts or changes.puts else text
    ready = opened if thinned == text else _opened(thinned, settings)
    after = ready.with_added(changes.adds) if changes.adds else thinned or ""
    # Nothing is handed out before it was read again.
    value = _proved(opened.value, after, settings, to_install)
    faults = settings.check(value)
    if faults:
        raise SettingsConflict(settings.path, f"the harness would refuse the result: {'; '.join(faults)}")
    return after


def text_removed(text: str | None, settings: SettingsFile) -> str | None:
    """Return the settings' text with nothing of ours in it, None where the file was ours alone.

    Raises:
        SettingsUnreadable: the text breaks the dialect's rules.
        SettingsConflict: ours cannot be taken out alone.
    """
    opened = _opened(text, settings)
    changes = to_remove(opened.value, settings)
    if changes.nothing:
        return text
    after = opened.without(changes.cuts, ())
    _proved(opened.value, after, settings, to_remove)
    return after


def _opened(text: str | None, settings: SettingsFile) -> _Text:
    body = None if text is None else text.removeprefix(BYTE_ORDER_MARK)
    mark = "" if text is None or body == text else BYTE_ORDER_MARK
    if settings.dialect == "yaml":
        opened: _Text = YamlText(body, tracked_paths(settings), settings.path)
    else:
        root = None if body is None else scan(body, settings.dialect, track_of(tracked_paths(settings)), settings.path)
        opened = JsonText(body, root, settings.dialect, settings.path)
    return _Marked(opened, mark) if mark else opened


class _Marked:
    """A text behind a byte order mark."""

    def __init__(self, inner: _Text, mark: str) -> None:
        self._inner, self._mark, self.value = inner, mark, inner.value

    def without(self, cuts: Sequence[Path], puts: Sequence[tuple[Path, Any]]) -> str | None:
        text = self._inner.without(cuts, puts)
        return None if text is None else self._mark + text

    def with_added(self, entries: Sequence[SettingsEntry]) -> str:
        return self._mark + self._inner.with_added(entries)


def _proved(before: Any, after: str | None, settings: SettingsFile, requested_changes: Any) -> Any:
    """Return what the new text says, once it is certain that it says what it should."""
    try:
        value = _said(after, settings)
    except SettingsUnreadable as fault:
        raise InternalError(
            f"the spliced text of {settings.path} cannot be read: {fault.why}; it is unchanged"
        ) from fault
    # Nothing may be left to do in the new text, and nothing else may have changed.
    changes: Changes = requested_changes(value, settings)
    if not changes.nothing or not _alike(
        without_ours(before, settings), without_ours(value, settings), settings.dialect
    ):
        raise InternalError(f"the spliced text of {settings.path} says something else than it should; it is unchanged")
    return value


def _said(text: str | None, settings: SettingsFile) -> Any:
    """Return what a text of ours says; of YAML without positions, which cost most."""
    if settings.dialect != "yaml":
        return _opened(text, settings).value
    said = load((text or "").removeprefix(BYTE_ORDER_MARK), settings.path)
    return {} if said is None else said


def _alike(before: Any, after: Any, dialect: Dialect) -> bool:
    """Compare what is not ours; in JSON, where no part is shared, marshal says quickly that nothing differs."""
    if dialect != "yaml":
        with suppress(ValueError):  # nested too deeply for it
            # Version 2 writes no references, which could differ between equal values.
            if marshal.dumps(before, 2) == marshal.dumps(after, 2):
                return True
    return same(before, after)
