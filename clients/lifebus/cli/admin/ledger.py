"""`lifebus ledger`: show, check, prune, back up, restore, export and import the ledger file (docs/ledger.md)."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_moment
from lifebus.cli.connection import on_bus, present_settings
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import clean, paint, put, put_json, say, size_text
from lifebus_contract import TransportError

if TYPE_CHECKING:
    from lifebus_admin.ledger_files.backup import Replacement
    from lifebus_admin.ledger_files.info import Edge, LedgerInfo
    from lifebus_admin.ledger_files.prune import PrunePlan, PruneRequest
    from lifebus_supervisor.configuration.settings import Settings

app = App(name="ledger")
_SNAPSHOTS: Final = "lifebus.cli.admin.snapshots"
app.command(f"{_SNAPSHOTS}:save", name="save", help="Take a snapshot of the state, as digests and pointers.")
app.command(
    "lifebus.cli.admin.boot:boot", name="boot", help="Rebuild the state from a snapshot and the log, and prove it."
)
app.command(f"{_SNAPSHOTS}:app", name="snapshots", help="List, show and verify what was saved.")
app.command(
    "lifebus.cli.admin.caches:app", name="caches", help="Views derived from the log: list, verify, rebuild, remove."
)
_Json = Annotated[bool, Parameter(name="--json")]


@app.default
@app.command
def show(file: Path | None = None, /, *, json: _Json = False) -> ExitCode:
    """Show the format and the contents of the ledger file; beside a broker or without one.

    Args:
        file: Another ledger file, a backup for instance.
        json: Answer in JSON.
    """
    from lifebus_admin.ledger_files.files import ledger_file  # noqa: PLC0415
    from lifebus_admin.ledger_files.info import read_info  # noqa: PLC0415

    settings = present_settings()
    found = read_info(file or ledger_file(settings), beside=None if file else settings.state_dir)
    if json:
        put_json(found)
    else:
        for line in info_lines(found):
            put(line)
    return ExitCode.OK


@app.command
def verify(file: Path | None = None, /, *, tail: int | None = None, json: _Json = False) -> ExitCode:
    """Check the ledger file: hash chains, sequences, keys, journal, state; exit code 1 if something is wrong.

    Args:
        file: Another ledger file, a backup for instance.
        tail: Check only this many of the newest receipts, and nothing else.
        json: Answer in JSON.
    """
    if tail is not None and tail < 1:
        raise UsageError("--tail: at least 1")
    from lifebus_admin.ledger_files.checks import check_ledger  # noqa: PLC0415

    found = check_ledger(present_settings(), file, tail=tail, progress=_progress())
    if json:
        put_json(found)
    else:
        verdict = paint("wrong", "red") if found.faults else paint("sound", "green")
        put(f"ledger {verdict}: {'the newest ' + str(tail) if tail else 'all'} receipts up to position {found.head}")
        for line in found.faults:
            put(f"  {line}")
    return ExitCode.NEGATIVE if found.faults else ExitCode.OK


@app.command
def prune(
    *,
    before: str | None = None,
    keep_days: int | None = None,
    keep_mb: int | None = None,
    through: int | None = None,
    compact: bool = False,
    dry_run: bool = False,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Drop the oldest receipts; consumers that still wanted one get a gap, and the keys stay known.

    Args:
        before: Drop those from before a time: 90d, or 2026-11-21T20:00:00Z.
        keep_days: Drop those that are older than this many days.
        keep_mb: Drop as many as it takes for the files to fit into this many MiB; the newest 1,024 stay.
        through: Drop those up to this position.
        compact: Write the file anew afterwards, without free pages; no broker may run.
        dry_run: Only say what would be dropped.
        connection: Where the broker is, and the form of the answer.
    """
    from lifebus_admin.ledger_files.prune import PruneRequest  # noqa: PLC0415

    for flag, value in (("--keep-days", keep_days), ("--keep-mb", keep_mb), ("--through", through)):
        if value is not None and value < 1:
            raise UsageError(f"{flag}: at least 1")
    moment = None if before is None else int(parse_moment(before, flag="--before").timestamp())
    request = PruneRequest(before_epoch_s=moment, keep_days=keep_days, keep_mb=keep_mb, through=through)
    return prune_ledger(present_settings(), request, connection, compact=compact, dry_run=dry_run)


@app.command
def backup(file: Path, /, *, rotate: int | None = None, json: _Json = False) -> ExitCode:
    """Copy the ledger as it is now into a new file, and check the copy; beside a broker or without one.

    Args:
        file: The file to write, which must not be there yet; with --rotate a folder.
        rotate: Write into the folder FILE, under a name with the time, and keep this many; older ones are deleted.
        json: Answer in JSON.
    """
    from lifebus_admin.ledger_files.backup import back_up  # noqa: PLC0415

    if rotate is not None:
        return _rotate(file, rotate, json=json)
    found = back_up(present_settings(), file)
    if json:
        put_json(
            {"file": str(file), "epoch": found.epoch, "head": found.head, "floor": found.floor, "bytes": found.bytes}
        )
    else:
        put(f"backed up to {file}: receipts up to position {found.head}, {size_text(found.bytes)}, checked")
    return ExitCode.OK


def _rotate(folder: Path, keep: int, *, json: bool) -> ExitCode:
    from lifebus_admin.ledger_files.rotation import rotate  # noqa: PLC0415

    if keep < 1:
        raise UsageError("--rotate: at least 1")
    made = rotate(present_settings(), folder.absolute(), keep, time.time())
    if json:
        put_json(made)
    else:
        gone = f"; removed {', '.join(made.removed)}" if made.removed else ""
        size = size_text(made.bytes)
        put(f"backed up to {clean(made.file)}: receipts up to position {made.head}, {size}, checked{gone}")
    return ExitCode.OK


@app.command
def restore(file: Path, /, *, json: _Json = False) -> ExitCode:
    """Put a backup in the place of the ledger, as a new history; the present one is moved aside.  Needs no broker.

    Args:
        file: The backup; it stays as it is.
        json: Answer in JSON.
    """
    from lifebus_admin.ledger_files.backup import restore as put_back  # noqa: PLC0415

    return _show_replaced(put_back(present_settings(), file, _new_epoch()), file, json=json)


@app.command
def export(file: Annotated[str, Parameter(allow_leading_hyphen=True)], /) -> ExitCode:
    """Write the whole ledger as text, one canonical JSON document a line; `import` makes a ledger of it again.

    Args:
        file: The file to write, which must not be there yet; - for stdout.
    """
    from lifebus_admin.ledger_files.files import ledger_file  # noqa: PLC0415
    from lifebus_admin.ledger_files.transfer import export_to, write_out  # noqa: PLC0415

    settings = present_settings()
    # Straight to stdout: a pipe has no unfinished file to remove.
    if file == "-":
        end = write_out(ledger_file(settings), sys.stdout.buffer.write)
        sys.stdout.flush()
    else:
        end = export_to(settings, Path(file))
    say(f"{end.counts.log} receipts, {end.counts.note} notes, sha256 {end.sha256}")
    return ExitCode.OK


@app.command(name="import")
def import_(file: Path, /, *, replace: bool = False, json: _Json = False) -> ExitCode:
    """Make the ledger of an export, every line checked, as a new history.  Needs no broker.

    Args:
        file: The export.
        replace: Replace a ledger that already has receipts; it is moved aside.
        json: Answer in JSON.
    """
    from lifebus_admin.ledger_files.transfer import bring_in  # noqa: PLC0415

    return _show_replaced(bring_in(present_settings(), file, _new_epoch(), replace=replace), file, json=json)


def _progress() -> "Callable[[str, int, int], None] | None":
    """Return what shows on a terminal how far a check is; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        return None

    def show(what: str, done: int, total: int) -> None:
        # Carriage return and erase: one line that is written over.
        share = f"{100 * done // total}%" if total else ""
        sys.stderr.write(f"\r\x1b[K{what} {share}" if what else "\r\x1b[K")
        sys.stderr.flush()

    return show


def _show_replaced(done: "Replacement", file: Path, *, json: bool) -> ExitCode:
    if json:
        put_json(done)
        return ExitCode.OK
    put(f"in place: the ledger of {file}, receipts up to position {done.head}, new epoch {done.epoch}")
    if done.aside is not None:
        put(f"the ledger before is in {done.aside}")
    return ExitCode.OK


def _new_epoch() -> str:
    import os  # noqa: PLC0415

    return os.urandom(16).hex()


_SETTLE_S: Final = 30.0
_POLL_S: Final = 0.05


def prune_ledger(
    settings: "Settings", request: "PruneRequest", connection: ConnectionOptions, *, compact: bool, dry_run: bool
) -> ExitCode:
    """Drop what the request names, and show what went and how much room came back."""
    from lifebus_admin.ledger_files.backup import shrink  # noqa: PLC0415
    from lifebus_admin.ledger_files.files import held_ledger  # noqa: PLC0415
    from lifebus_admin.ledger_files.prune import plan_prune  # noqa: PLC0415

    # Two rules at once could contradict each other; compacting alone needs none.
    named = [name for name in request.__struct_fields__ if getattr(request, name) is not None]
    if len(named) > 1 or not (named or compact):
        raise UsageError("name one of --before, --keep-days, --keep-mb and --through, or --compact alone")
    plan = plan_prune(settings, int(time.time()), request)
    if dry_run:
        return _show_pruned(plan, plan.info, (), connection, dry_run=True)
    if compact:
        with held_ledger(settings):
            pass  # beside a broker nothing is done, not half of it
    consumers = _prune(settings, plan, connection) if plan.receipts else ()
    # After the rows are gone: the new file has no free page.
    if compact:
        shrink(settings)
    return _show_pruned(plan, _settled(settings), consumers, connection, dry_run=False)


def _prune(settings: "Settings", plan: "PrunePlan", connection: ConnectionOptions) -> tuple[str, ...]:
    """Have the broker do it, or without one do it here; return the named consumers that lost something."""
    try:
        return on_bus(connection, lambda bus: bus.ledger.prune(plan.through)).consumers
    except TransportError as fault:
        if fault.code != "no_broker":
            raise
    from lifebus_admin.ledger_files.prune import prune_here  # noqa: PLC0415

    prune_here(settings, plan.through, int(time.time()))
    return ()


def _settled(settings: "Settings") -> "LedgerInfo":
    """Return what the ledger is once the rows are gone that a broker deletes piece by piece."""
    from lifebus_admin.ledger_files.files import ledger_file  # noqa: PLC0415
    from lifebus_admin.ledger_files.info import read_info  # noqa: PLC0415

    # The broker answers once the floor is durable, and deletes the rows in small transactions after that.
    end = time.monotonic() + _SETTLE_S
    while (info := read_info(ledger_file(settings))).deleting and time.monotonic() < end:
        time.sleep(_POLL_S)
    return info


def _show_pruned(
    plan: "PrunePlan", after: "LedgerInfo", consumers: tuple[str, ...], connection: ConnectionOptions, *, dry_run: bool
) -> ExitCode:
    # A broker that goes on writing may have made the file larger meanwhile.
    freed = max(plan.info.bytes - after.bytes, 0)
    if connection.json:
        put_json(
            {
                "dry_run": dry_run,
                "receipts": plan.receipts,
                "before": plan.info.floor,
                "floor": plan.through,
                "head": after.head,
                "consumers": consumers,
                "bytes_before": plan.info.bytes,
                "bytes": after.bytes,
                "free_bytes": after.free_bytes,
            }
        )
        return ExitCode.OK
    if not plan.receipts:
        put("there is nothing to drop")
    else:
        verb = "would go" if dry_run else "went"
        put(f"{plan.receipts} receipts {verb}: positions {plan.info.floor + 1} to {plan.through}")
    if consumers:
        put(f"consumers with a gap: {', '.join(consumers)}")
    if not dry_run:
        put(f"{size_text(freed)} returned; {size_text(after.bytes)} left, {size_text(after.free_bytes)} of them free")
    return ExitCode.OK


_WIDTH = 12


def info_lines(info: "LedgerInfo") -> Iterator[str]:
    """Yield the lines that say what a ledger file holds."""
    yield _line("file", f"{clean(info.path)}, format {info.format}, durability {info.durability}")
    yield _line("epoch", info.epoch)
    yield _line("receipts", f"{info.rows}: positions {info.floor + 1} to {info.head}" if info.rows else "none")
    yield _line("oldest", _edge_text(info.oldest))
    yield _line("newest", _edge_text(info.newest))
    yield _line("sessions", str(info.sessions))
    yield _line("keys", f"{info.keys}, and {info.tombstones} of pruned receipts")
    yield _line("journal", f"{info.notes} notes in {info.note_streams} streams")
    if info.base is not None:
        yield _line("pruned", f"up to position {info.floor}; the base takes {size_text(info.base.bytes)}")
    else:
        yield _line("pruned", f"up to position {info.floor}" if info.floor else "nothing")
    parts = (
        f"database {size_text(info.database_bytes)}, log {size_text(info.wal_bytes)}, {size_text(info.shm_bytes)} index"
    )
    yield _line("size", f"{size_text(info.bytes)}: {parts}; {size_text(info.free_bytes)} free in it")
    yield _line("beside it", f"{info.caches} compactions, {info.snapshots} snapshots")


def _edge_text(edge: "Edge | None") -> str:
    if edge is None:
        return "none"
    return f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(edge.at_epoch_s))}, position {edge.position}"


def _line(name: str, text: str) -> str:
    return f"{name:<{_WIDTH}}{text}"
