"""`lifebus ledger save` and `snapshots`: snapshots are taken, listed and checked against the log (docs/ledger.md)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_choice
from lifebus.cli.connection import on_bus, present_settings
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import clean, paint, put, put_json, put_table, say
from lifebus_contract import TransportError

if TYPE_CHECKING:
    from lifebus_admin.snapshots.boot import Verdict
    from lifebus_supervisor.jobs.state_directory import SnapshotList
    from lifebus_transports.messages.snapshots import SaveAnswer, SaveTypeName

app = App(name="snapshots")
_Json = Annotated[bool, Parameter(name="--json")]


@app.default
@app.command(name="list")
def list_all(*, json: _Json = False) -> ExitCode:
    """List the snapshots, the newest first, and say which the log can still prove.

    Args:
        json: Answer in JSON.
    """
    from lifebus_supervisor.jobs.state_directory import list_snapshots  # noqa: PLC0415

    listing = list_snapshots(present_settings())
    if json:
        put_json([*map(listing.describe, listing.snapshots), *listing.refused])
    elif listing.snapshots:
        _put_listing(listing)
    else:
        say("nothing was saved yet; `lifebus ledger save session` saves now")
    if not json:
        for file in listing.refused:
            say(f"{file.name}: refused: {file.why}", color="red")
    # A file that is none was damaged or put there by others: scripts must notice.
    return ExitCode.NEGATIVE if listing.refused else ExitCode.OK


@app.command
def show(which: str | None = None, /, *, json: _Json = False) -> ExitCode:  # noqa: ARG001  it is JSON in any case
    """Print a snapshot whole, as JSON.

    Args:
        which: Its id or its file; the newest by default.
        json: Answer in JSON, as without it.
    """
    import msgspec  # noqa: PLC0415

    from lifebus_admin.snapshots.boot import stored_bytes, stored_snapshot  # noqa: PLC0415

    put(msgspec.json.format(stored_bytes(stored_snapshot(present_settings(), which))).decode())
    return ExitCode.OK


@app.command
def verify(which: str | None = None, /, *, json: _Json = False) -> ExitCode:
    """Boot snapshots from the log alone and compare every byte; exit code 1 if one is wrong.

    Args:
        which: Only this one: its id or its file.
        json: Answer in JSON.
    """
    from lifebus_admin.snapshots.boot import verify_snapshots  # noqa: PLC0415

    verdicts = verify_snapshots(present_settings(), which)
    if json:
        put_json(verdicts)
    else:
        for verdict in verdicts:
            _put_verdict(verdict)
        if not verdicts:
            say("nothing was saved yet; `lifebus ledger save session` saves now")
    # An old snapshot whose lines were pruned is no fault of the ledger, unless it was asked for by name.
    bad = {"wrong", "unprovable"} if which is not None else {"wrong"}
    return ExitCode.NEGATIVE if any(verdict.verdict in bad for verdict in verdicts) else ExitCode.OK


def _put_listing(listing: "SnapshotList") -> None:
    rows = [listing.describe(snapshot) for snapshot in listing.snapshots]
    put_table(
        ("snapshot", "type", "position", "lines", "pending", "provable"),
        [
            (row.snapshot_id, row.save_type, str(row.position), f"{row.first}-{row.position}", str(row.pending), why)
            for row, why in ((row, "yes" if row.why_not is None else f"no: {row.why_not}") for row in rows)
        ],
    )


def _put_verdict(verdict: "Verdict") -> None:
    color = {"proved": "green", "unprovable": "yellow", "wrong": "red"}[verdict.verdict]
    put(f"{verdict.name}  {paint(verdict.verdict, color)}{': ' + clean(verdict.why) if verdict.why else ''}")


_TYPES: "dict[str, SaveTypeName]" = {"scene": "SCENE", "session": "SESSION", "campaign": "CAMPAIGN"}


def save(which: str, /, *, to: Path | None = None, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """Save now; without a broker, from the ledger file.  Nothing is written to the log.

    Args:
        which: How much is saved: scene, session or campaign; each has all of the one before, and more.
        to: With campaign: write the archive into this new file, all that is needed to boot on another machine.
        connection: Where the broker is, and the form of the answer.
    """
    save_type = _TYPES[parse_choice("WHICH", which, list(_TYPES))]
    if to is not None:
        # Only a campaign holds the log that a boot on another machine needs.
        if save_type != "CAMPAIGN":
            raise UsageError(f"--to: only a campaign is written into a file: lifebus ledger save campaign --to {to}")
        return _archive(to, json=connection.json)
    answer = _save(save_type, connection)
    if connection.json:
        put_json(answer)
    else:
        kept = "saved" if answer.new else "was saved already, and nothing has changed since"
        put(f"{answer.snapshot_id}  {which}, position {answer.position}: {kept}")
    return ExitCode.OK


def _archive(to: Path, *, json: bool) -> ExitCode:
    """Write a campaign as one file, beside a broker or without one."""
    from lifebus_admin.snapshots.archive import save_campaign  # noqa: PLC0415

    snapshot = save_campaign(present_settings(), to)
    found = {"snapshot_id": snapshot.snapshot_id, "position": snapshot.timestamp_event_id, "file": str(to)}
    if json:
        put_json(found)
    else:
        put(f"{snapshot.snapshot_id}  campaign, position {found['position']}: written to {clean(to)}")
        say(f"`lifebus ledger boot {to}` boots it anywhere", color="dim")
    return ExitCode.OK


def _save(save_type: "SaveTypeName", connection: ConnectionOptions) -> "SaveAnswer":
    """Have the broker save, or without one do it here."""
    try:
        return on_bus(connection, lambda bus: bus.saves.save(save_type))
    except TransportError as fault:
        # Only without any broker may this process read the ledger file itself.
        if fault.code != "no_broker":
            raise
    from lifebus_supervisor.jobs.state_directory import save_file  # noqa: PLC0415

    settings = present_settings()
    say(f"no broker answers; saving {settings.ledger_location}", color="dim")
    return save_file(settings, save_type)
