"""Check a ledger: its file against itself, the fold over its log, what was saved and derived of it (docs/ledger.md)."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from lifebus_admin.ledger_files.files import ledger_file, regular_file
from lifebus_admin.ledger_files.info import read_info
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.errors import user_errors
from lifebus_broker.ledger.sqlite.format import FORMAT
from lifebus_broker.ledger.sqlite.reader import Reader
from lifebus_broker.ledger.sqlite.transfer.exporter import SqliteExport
from lifebus_broker.snapshots.compactions.registry import CompactionRegistry
from lifebus_broker.snapshots.files import DIRECTORY, SnapshotFiles
from lifebus_broker.snapshots.replay import LogProof
from lifebus_broker.state.session_state import head_of
from lifebus_broker.state.stores import Stores, load_base
from lifebus_broker.state.stream_digests import Stream
from lifebus_contract import LifebusError
from lifebus_supervisor.configuration.settings import Settings

Progress = Callable[[str, int, int], None]
"""Called with what is being checked and how much of how much is done; an empty text at the end."""

_MOST = 20


class CheckReport(Struct, frozen=True, kw_only=True):
    """What was checked, up to which position, and what is wrong with it."""

    head: int
    faults: list[str]


def check_ledger(
    settings: Settings, file: Path | None = None, *, tail: int | None = None, progress: Progress | None = None
) -> CheckReport:
    """Check the ledger of the settings with all that lies beside it, or another file.

    With `tail` only so many of the newest receipts.

    Raises:
        LifebusError: it cannot be read at all.
    """
    path = regular_file(file or ledger_file(settings))
    progress = progress or _ignore_progress
    head = read_info(path).head
    if tail is not None:
        return CheckReport(head=head, faults=_check_rows(path, tail))
    faults = check_file(path, None if file is not None else settings.state_dir, progress)
    progress("", 0, 0)
    return CheckReport(head=head, faults=faults)


def check_file(path: Path, state_dir: Path | None = None, progress: Progress | None = None) -> list[str]:
    """Return what is wrong with a ledger file, and with snapshots and compactions of it; nothing is written.

    Raises:
        LifebusError: it cannot be read at all.
    """
    progress = progress or _ignore_progress
    progress("rows, chains, keys, notes", 0, 0)
    faults = _check_rows(path)
    with user_errors(path), SqliteExport(path) as log:
        files = None if state_dir is None else SnapshotFiles(state_dir / DIRECTORY)
        snapshots, refused = ([], []) if files is None else files.all()
        proof = LogProof(log, snapshots, None if files is None else files.supplement)
        proof.run(lambda done, total: progress("fold", done, total))
        # where a row is wrong the fold cannot go on from it: the row is the finding
        faults += [fault for fault in proof.faults if not (faults and fault.startswith("fold: "))]
        faults += [f"snapshot file {one.name}: {one.why}" for one in refused]
        if not proof.faults:
            # only a log that holds: of a broken one every head would differ
            faults += _check_heads(path, proof.stores)
            if not read_info(path).deleting:  # else the tables are on their way to the base
                faults += _check_base(log)
            if state_dir is not None:
                progress("compactions", 0, 0)
                faults += _check_compactions(state_dir, log)
    return faults[:_MOST]


def require_whole(path: Path, refusal: str) -> None:
    """Make sure that a file is a ledger and holds what was acknowledged last, which no copy of it can tell.

    Raises:
        LifebusError: it does not; the text begins with `refusal`.
    """
    # an older format has no watermark, and is checked once its copy is up to date
    faults = _check_rows(path, 1) if read_info(path).format == FORMAT else []
    if faults:
        raise LifebusError("\n".join((refusal, *faults)), code="ledger_damaged")


def _check_rows(path: Path, tail: int | None = None) -> list[str]:
    with user_errors(path):
        return verify(path, tail)


def _check_heads(path: Path, stores: Stores) -> Iterator[str]:
    """Compare the ledger's heads with the sessions of the stores; what came after the replay is left out."""
    with closing(Reader(path)) as reader:
        # receipts may be committed after the replay: a head beyond its end is no difference
        heads = reader.sessions(None)
    known = 0
    for head in heads:
        session = stores.sessions.get((head.adapter_id, head.harness_session_id))
        known += session is not None
        if head.last_position <= stores.position and (session is None or head_of(session) != head):
            yield f"session {head.adapter_id}/{head.harness_session_id[:64]}: its head is not what the fold says"
    if known < len(stores.sessions):
        yield f"{len(stores.sessions) - known} sessions of the fold are not in the ledger's tables"


def _check_base(log: SqliteExport) -> Iterator[str]:
    """Compare what the tables keep of pruned streams with the base."""
    base = log.base()
    if base is None:
        return
    facts = load_base(base).facts
    for head in log.heads():
        kept = Stream(head.position, head.sequence or 0, bytes.fromhex(head.link))
        if head.position <= log.floor and facts.get((head.adapter_id, head.session or None)) != kept:
            yield f"base: the stream {head.adapter_id}/{head.session[:64]} is not what the tables keep of it"


def _check_compactions(state_dir: Path, log: SqliteExport) -> list[str]:
    try:
        verified = CompactionRegistry(state_dir, log).verify()
    except LifebusError as fault:
        return [f"compactions: {fault.detail}"]
    return [f"compaction {one.name}: {one.why}" for one in verified.wrong]


def _ignore_progress(_what: str, _done: int, _total: int) -> None:
    """Nothing shows the progress."""
