"""`lifebus ledger`: look at the ledger file, check it, back it up, put another in its place (docs/ledger.md)."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from lifebus.cli.arguments import DEFAULTS, Connecting, UsageError, parse_moment
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.settings import present_settings
from lifebus.cli.terminal import paint, put, put_json, say, size_text

if TYPE_CHECKING:
    from lifebus_admin.ledger_files.backup import Replaced

app = App(name="ledger")
_Json = Annotated[bool, Parameter(name="--json")]


@app.default
@app.command
def info(file: Path | None = None, /, *, json: _Json = False) -> ExitCode:
    """Show what the ledger file is and holds; beside a broker or without one.

    Args:
        file: Another ledger file, a backup for instance.
        json: Answer in JSON.
    """
    from lifebus.cli.admin.ledger_text import info_lines  # noqa: PLC0415
    from lifebus_admin.ledger_files.files import ledger_file  # noqa: PLC0415
    from lifebus_admin.ledger_files.info import look_at  # noqa: PLC0415

    settings = present_settings()
    found = look_at(file or ledger_file(settings), beside=None if file else settings.state_dir)
    if json:
        put_json(found)
    else:
        for line in info_lines(found):
            put(line)
    return ExitCode.OK


@app.command
def verify(file: Path | None = None, /, *, tail: int | None = None, json: _Json = False) -> ExitCode:
    """Check the ledger file: hash chains, sequences, keys, notes, the fold; exit code 1 if something is wrong.

    Args:
        file: Another ledger file, a backup for instance.
        tail: Check only so many of the newest receipts, and nothing else.
        json: Answer in JSON.
    """
    if tail is not None and tail < 1:
        raise UsageError("--tail: at least 1")
    from lifebus_admin.ledger_files.checks import check_ledger  # noqa: PLC0415

    found = check_ledger(present_settings(), file, tail=tail, watch=_watch())
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
    connecting: Connecting = DEFAULTS,
) -> ExitCode:
    """Drop the oldest receipts; who still wanted one is told, and their keys stay known.

    Args:
        before: Those from before a time: 90d, or 2026-11-21T20:00:00Z.
        keep_days: Those older than so many days.
        keep_mb: As many as it takes for the files to fit into so many MiB; the newest 1,024 stay.
        through: Those up to a position.
        compact: Write the file anew afterwards, so that no page of it is free; needs no broker.
        dry_run: Only say what would go.
        connecting: Where the broker is, and the form of the answer.
    """
    from lifebus.cli.admin.prune import prune_ledger  # noqa: PLC0415
    from lifebus_admin.ledger_files.prune import PruneWish  # noqa: PLC0415

    for flag, value in (("--keep-days", keep_days), ("--keep-mb", keep_mb), ("--through", through)):
        if value is not None and value < 1:
            raise UsageError(f"{flag}: at least 1")
    moment = None if before is None else int(parse_moment(before, flag="--before").timestamp())
    wish = PruneWish(before_epoch_s=moment, keep_days=keep_days, keep_mb=keep_mb, through=through)
    return prune_ledger(present_settings(), wish, connecting, compact=compact, dry_run=dry_run)


@app.command
def backup(file: Path, /, *, json: _Json = False) -> ExitCode:
    """Copy the ledger as it is now into a new file, and check the copy; beside a broker or without one.

    Args:
        file: The file to write; it must not be there yet.
        json: Answer in JSON.
    """
    from lifebus_admin.ledger_files.backup import back_up  # noqa: PLC0415

    found = back_up(present_settings(), file)
    if json:
        put_json(
            {"file": str(file), "epoch": found.epoch, "head": found.head, "floor": found.floor, "bytes": found.bytes}
        )
    else:
        put(f"backed up to {file}: receipts up to position {found.head}, {size_text(found.bytes)}, checked")
    return ExitCode.OK


@app.command
def restore(file: Path, /, *, json: _Json = False) -> ExitCode:
    """Put a backup in the place of the ledger, as a new history; the present one is moved aside.  Needs no broker.

    Args:
        file: The backup; it stays as it is.
        json: Answer in JSON.
    """
    from lifebus_admin.ledger_files.backup import restore as put_back  # noqa: PLC0415

    return _tell_replaced(put_back(present_settings(), file, _new_epoch()), file, json=json)


@app.command
def export(file: Annotated[str, Parameter(allow_leading_hyphen=True)], /) -> ExitCode:
    """Write the whole ledger as text, one canonical JSON document a line; `import` makes a ledger of it again.

    Args:
        file: The file to write, which must not be there yet; - for stdout.
    """
    from lifebus_admin.ledger_files.files import ledger_file  # noqa: PLC0415
    from lifebus_admin.ledger_files.transfer import export_to, write_out  # noqa: PLC0415

    settings = present_settings()
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
        replace: Also where there are receipts already; that ledger is moved aside.
        json: Answer in JSON.
    """
    from lifebus_admin.ledger_files.transfer import bring_in  # noqa: PLC0415

    return _tell_replaced(bring_in(present_settings(), file, _new_epoch(), replace=replace), file, json=json)


def _watch() -> "Callable[[str, int, int], None] | None":
    """Return what shows on a terminal how far a check is; None where nobody looks."""
    if not sys.stderr.isatty():
        return None

    def show(what: str, done: int, total: int) -> None:
        share = f"{100 * done // total}%" if total else ""
        sys.stderr.write(f"\r\x1b[K{what} {share}" if what else "\r\x1b[K")
        sys.stderr.flush()

    return show


def _tell_replaced(done: "Replaced", file: Path, *, json: bool) -> ExitCode:
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
