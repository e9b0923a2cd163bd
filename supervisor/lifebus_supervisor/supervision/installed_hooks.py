"""Which harnesses have hooks of ours, by the records that the installer keeps in the state directory."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from lifebus_contract import IntegrationMode

RECORDS: Final = Path("hooks", "records")
"""The folder of the installer's records, in the state directory."""


class _InstallUsers(Struct, frozen=True):
    """What is read here of an installer's record."""

    path: str
    users: tuple[str, ...] = ()


def recorded_users(state_dir: Path) -> Iterator[str]:
    """Yield the installations that the records name, some of them often; unreadable records are skipped."""
    for place in sorted((state_dir / RECORDS).glob("*.json")):
        with suppress(OSError, msgspec.MsgspecError, UnicodeError):
            yield from msgspec.json.decode(place.read_bytes(), type=_InstallUsers).users


def installed_hooks(state_dir: Path) -> frozenset[str]:
    """Return the ids of the adapters whose native hooks are on record as installed for the whole user.

    Hooks of one project say nothing about sessions elsewhere.
    """
    wanted = [IntegrationMode.NATIVE_HOOK.value, "user"]
    users = [user.split(":") for user in recorded_users(state_dir)]
    return frozenset(adapter_id for adapter_id, *rest in users if rest[:2] == wanted)


class InstalledHooks:
    """Says of an adapter whether its hooks are installed; the records are read again when their folder changes."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._changed_ns: int | None = None
        self._known: frozenset[str] = frozenset()

    def __call__(self, adapter_id: str) -> bool:
        """Return whether hooks of the adapter are installed; costs one stat while nothing changes."""
        try:
            changed_ns = (self._state_dir / RECORDS).stat().st_mtime_ns
        except OSError:
            return False
        # The installer replaces a record by renaming, which changes the folder's time.
        if changed_ns != self._changed_ns:
            self._changed_ns, self._known = changed_ns, installed_hooks(self._state_dir)
        return adapter_id in self._known
