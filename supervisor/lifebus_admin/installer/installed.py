"""Which harnesses have hooks of ours, by the records of what was installed."""

from pathlib import Path

from lifebus_admin.installer.records import recorded_users
from lifebus_contract import IntegrationMode


def installed_hooks(state_dir: Path) -> frozenset[str]:
    """Return the ids of the adapters whose native hooks are on record as installed for all that the user does.

    Hooks of one project say nothing about sessions elsewhere.  Records that cannot be read count nothing.
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
        """Return whether hooks of the adapter are installed; a look at the folder's time stamp, no more."""
        try:
            changed_ns = (self._state_dir / "hooks" / "records").stat().st_mtime_ns
        except OSError:
            return False
        if changed_ns != self._changed_ns:
            self._changed_ns, self._known = changed_ns, installed_hooks(self._state_dir)
        return adapter_id in self._known
