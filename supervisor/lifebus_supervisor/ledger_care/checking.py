"""Check a ledger file: against itself, and against the fold over its rows (docs/ledger.md, "Commands").

Above: the command line, copying.  Below: files, lifebus_broker.ledger.
"""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from lifebus_broker.ledger.sqlite_verify import verify
from lifebus_supervisor.ledger_care.files import ledger_file, regular_file, telling
from lifebus_supervisor.ledger_care.info import look_at
from lifebus_supervisor.settings import Settings

__all__ = ["Checked", "check_file", "check_ledger"]


class Checked(Struct, frozen=True, kw_only=True):
    """What was checked, up to which position, and what is wrong with it."""

    head: int
    faults: list[str]


def check_ledger(
    settings: Settings,
    file: Path | None = None,
    *,
    tail: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Checked:
    """Check the ledger of the settings, or another file; `progress` gets what is done of how much.

    Raises:
        LifebusError: it cannot be read at all.
    """
    path = regular_file(file or ledger_file(settings))
    tell = progress or _tell_nobody
    head = look_at(path).head
    tell("chains, sequences, keys, notes", 0, 0)
    faults = check_file(path, tail)
    tell("", 0, 0)
    return Checked(head=head, faults=faults)


def check_file(path: Path, tail: int | None = None) -> list[str]:
    """Return what is wrong with a ledger file, one line each; nothing is written.

    Raises:
        LifebusError: it cannot be read at all.
    """
    with telling(path):
        return verify(path, tail)


def _tell_nobody(_what: str, _done: int, _total: int) -> None:
    """Nobody watches."""
