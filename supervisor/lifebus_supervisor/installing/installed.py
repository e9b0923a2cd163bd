"""Which harnesses have hooks of ours, by the records of what was installed.

Above: the supervisor, doctor.  Below: records.
"""

from pathlib import Path

import msgspec

from lifebus_contract import IntegrationMode
from lifebus_supervisor.installing.records import Record

__all__ = ["InstalledHooks", "installed_hooks"]


def installed_hooks(state_dir: Path) -> frozenset[str]:
    """Return the ids of the adapters whose native hooks are recorded as installed; unreadable records count nothing."""
    found: set[str] = set()
    for place in (state_dir / "hooks" / "records").glob("*.json"):
        try:
            record = msgspec.json.decode(place.read_bytes(), type=Record)
        except (OSError, msgspec.MsgspecError, UnicodeError):
            continue
        for user in record.users:
            adapter_id, _, wish = user.partition(":")
            if wish.partition(":")[0] == IntegrationMode.NATIVE_HOOK.value:
                found.add(adapter_id)
    return frozenset(found)


class InstalledHooks:
    """Says of an adapter whether its hooks are installed; the records are read again when their folder changes."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._changed_ns: int | None = None
        self._known: frozenset[str] = frozenset()

    def __call__(self, adapter_id: str) -> bool:
        """Return whether hooks of the adapter are installed; a look at the folder's time stamp, no more."""
        try:
            changed_ns = (self._state_dir / "hooks" / "records").stat().st_mtime_ns
        except OSError:
            return False
        if changed_ns != self._changed_ns:
            self._changed_ns, self._known = changed_ns, installed_hooks(self._state_dir)
        return adapter_id in self._known
