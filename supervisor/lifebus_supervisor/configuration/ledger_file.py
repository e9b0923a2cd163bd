"""The ledger file that the settings name, and the replacement of it that a kill may have cut off."""

from glob import escape
from pathlib import Path

from lifebus_broker.atomic_files import remove_unfinished
from lifebus_broker.ledger.sqlite.swap import settle
from lifebus_contract import LifebusError
from lifebus_supervisor.configuration.settings import Settings


def ledger_file(settings: Settings) -> Path:
    """Return the ledger file that the settings name; it need not be there.

    Raises:
        LifebusError: the settings name none.
    """
    if settings.ledger.backend != "sqlite":
        raise LifebusError("the ledger is kept in memory: there is no file", code="configuration")
    return settings.ledger_path.resolve()  # what replaces it must not replace a link to it


def companions_of(settings: Settings) -> tuple[Path, ...]:
    """Return what lies beside a ledger and speaks of its history alone: the snapshots; caches prove themselves."""
    return (settings.state_dir / "snapshots",)


def settle_ledger(settings: Settings) -> None:
    """Finish a replacement of the ledger that was cut off, and remove what was left unfinished beside it.

    The caller holds the locks; blocks.

    Raises:
        OSError: it cannot be done now.
    """
    path = ledger_file(settings)
    settle(path, companions_of(settings))
    remove_unfinished(path.parent, path.name)
    for left in path.parent.glob(f".{escape(path.name)}.*.tmp-*"):
        if not left.with_name(left.name.rpartition("-")[0]).exists():
            left.unlink(missing_ok=True)
