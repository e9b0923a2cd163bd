"""`lifebus snapshots`: what was saved, and whether the log still proves it (docs/ledger.md, "Saves")."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.settings import present_settings
from lifebus.cli.terminal import clean, paint, put, put_json, put_table, say

if TYPE_CHECKING:
    from lifebus_admin.snapshots.boot import Verdict
    from lifebus_supervisor.jobs.state_directory import Listing

app = App(name="snapshots")
_Json = Annotated[bool, Parameter(name="--json")]


@app.default
@app.command(name="ls")
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
        say("nothing was saved yet; `lifebus save session` saves now")
    if not json:
        for file in listing.refused:
            say(f"{file.name}: refused: {file.why}", color="red")
    return ExitCode.NEGATIVE if listing.refused else ExitCode.OK


@app.command
def show(which: str | None = None, /) -> ExitCode:
    """Print a snapshot whole, as JSON.

    Args:
        which: Its id or its file; the newest unless told.
    """
    import msgspec  # noqa: PLC0415

    from lifebus_admin.snapshots.boot import find_snapshot, stored_bytes  # noqa: PLC0415
    from lifebus_supervisor.jobs.state_directory import snapshot_files  # noqa: PLC0415

    put(msgspec.json.format(stored_bytes(find_snapshot(snapshot_files(present_settings()), which))).decode())
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
            say("nothing was saved yet; `lifebus save session` saves now")
    bad = {"wrong", "unprovable"} if which is not None else {"wrong"}
    return ExitCode.NEGATIVE if any(verdict.verdict in bad for verdict in verdicts) else ExitCode.OK


def _put_listing(listing: "Listing") -> None:
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
