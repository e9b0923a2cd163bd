"""Write a ledger down as text, and make a ledger of such a text again (docs/ledger.md, "The export")."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lifebus_admin.ledger_files.backup import Replacement, put_in_place
from lifebus_admin.ledger_files.checks import require_whole
from lifebus_admin.ledger_files.files import held_ledger, ledger_file, new_file, regular_file, unfinished_file
from lifebus_admin.ledger_files.info import read_info
from lifebus_broker.exports.damage import open_export
from lifebus_broker.exports.jsonl_log import FileSlice, JsonlLog
from lifebus_broker.exports.lines import End
from lifebus_broker.exports.writer import write_export
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.errors import user_errors
from lifebus_broker.ledger.sqlite.transfer.copy import bring_up_to_date, copy_ledger
from lifebus_broker.ledger.sqlite.transfer.exporter import SqliteExport, finish_pruning
from lifebus_broker.ledger.sqlite.transfer.importer import build_ledger
from lifebus_broker.snapshots.archive import LEDGER, is_archive, open_archive
from lifebus_broker.state.stores import READABLE_BASES, REDUCER_VERSION
from lifebus_contract import LifebusError
from lifebus_supervisor.configuration.settings import Settings

_DAMAGED: Final = "the ledger {} is damaged; nothing was exported (`lifebus receipts export --rescue` may help)"


@contextmanager
def export_source(path: Path) -> Generator[SqliteExport]:
    """Yield a private copy of a ledger as of now, to be read; works beside a broker, whose writer never waits.

    Raises:
        LifebusError: the ledger cannot be read, or is damaged: then no line of it is worth having.
        OSError: there is no room for the copy beside it.
    """
    require_whole(path, _DAMAGED.format(path))
    with unfinished_file(path) as copy:
        with user_errors(path):
            # an export takes minutes: a reader open that long would keep the write-ahead log from being reset
            copy_ledger(path, copy)
            bring_up_to_date(copy)
            if faults := verify(copy):
                raise LifebusError("\n".join((_DAMAGED.format(path), *faults)), code="ledger_damaged")
            finish_pruning(copy)
        with SqliteExport(copy) as source:
            yield source


def write_out(path: Path, write: Callable[[bytes], object]) -> End:
    """Write the export of a ledger file, and return its last line.

    Raises:
        LifebusError: the ledger cannot be read, or is damaged.
        OSError: it cannot be written.
    """
    with export_source(path) as source:
        return write_export(source, REDUCER_VERSION, write)


def export_to(settings: Settings, target: Path) -> End:
    """Write the export of the ledger into a new file, whole or not at all.

    Raises:
        LifebusError: as `write_out`, or there is something at `target`.
        OSError: it cannot be written.
    """
    with new_file(target) as unfinished, unfinished.open("wb") as file:
        return write_out(ledger_file(settings), file.write)


def bring_in(settings: Settings, export: Path, epoch: str, *, replace: bool) -> Replacement:
    """Make the ledger of an export or a bundle, as a new history; without `replace` only where there is nothing yet.

    Raises:
        LifebusError: a broker runs, there is a ledger already, or the export does not follow; nothing has changed.
        OSError: a file cannot be written.
    """
    source = _open(regular_file(export, "export"))
    # a base cannot be computed again, for its receipts are gone; so its version must be one that we can read
    if source.base() is not None and source.header.reducer not in READABLE_BASES:
        detail = f"{export}: what stands for its pruned receipts is of version {source.header.reducer} of the fold"
        raise LifebusError(f"{detail}; this program knows {REDUCER_VERSION}", code="ledger_format")
    with held_ledger(settings) as path:
        if not replace:
            _require_empty(path)

        def build(unfinished: Path) -> None:
            with user_errors(unfinished):
                build_ledger(source, unfinished, epoch)

        return put_in_place(settings, path, build, f"{export} does not make a sound ledger; nothing was changed")


def _open(file: Path) -> JsonlLog:
    """Return the log of an export, or of the one in a bundle."""
    if not is_archive(file):
        return open_export(FileSlice(file))
    bundle = open_archive(file)
    log = open_export(bundle.parts[LEDGER])
    # after the log was read: a damaged part is refused before anything is built of it
    bundle.check(LEDGER)
    return log


def _require_empty(path: Path) -> None:
    """Refuse to put a ledger in the place of one that holds something.

    Raises:
        LifebusError: it does, or it cannot be read.
    """
    if not path.exists():
        return
    info = read_info(path)
    if info.head or info.notes:
        raise LifebusError(
            f"{path} holds receipts up to position {info.head}; --replace moves it aside first",
            code="exists",
        )
