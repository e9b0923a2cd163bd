"""`lifebus compactions`: views derived from the log, which anybody may delete (docs/ledger.md, "Compactions")."""

from typing import Annotated

from cyclopts import App, Parameter

from lifebus.cli.arguments import UsageError
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.settings import present_settings
from lifebus.cli.terminal import clean, paint, put, put_bytes, put_json, put_table, say, size_text

app = App(name="compactions")
_Json = Annotated[bool, Parameter(name="--json")]


@app.default
@app.command(name="ls")
def list_all(*, json: _Json = False) -> ExitCode:
    """List the compactions, and say which are stale; exit code 1 if a file is none.

    Args:
        json: Answer in JSON.
    """
    from lifebus_admin.snapshots.compactions import list_compactions  # noqa: PLC0415

    listed, refused = list_compactions(present_settings())
    if json:
        put_json({"compactions": listed, "refused": refused})
    elif listed:
        put_table(
            ("compaction", "made by", "of", "size", ""),
            [
                (
                    one.compaction_id,
                    one.compaction_policy_id,
                    one.of,
                    size_text(one.bytes),
                    "stale" if one.stale else "",
                )
                for one in listed
            ],
        )
    elif not refused:
        say("there are none; `lifebus compactions rebuild` builds them")
    if not json:
        for file in refused:
            say(f"{clean(file.name)}: refused: {clean(file.why)}", color="red")
    return ExitCode.NEGATIVE if refused else ExitCode.OK


@app.command
def show(which: str, /, *, json: _Json = False) -> ExitCode:
    """Show a compaction; a recap as it is now, even if the kept one is stale.

    Args:
        which: Its id, or <adapter>/<session> for the recap of a session.
        json: Print it whole, as it is kept.
    """
    from lifebus.cli.admin.recap_text import recap_lines  # noqa: PLC0415
    from lifebus_admin.snapshots.compactions import present_compaction  # noqa: PLC0415

    found = present_compaction(present_settings(), which)
    if found.anew:
        say("the kept recap is stale; this one is built anew")
    if json:
        put_bytes(found.stored)
    elif found.recap is not None:
        for line in recap_lines(found.recap):
            put(line)
    else:
        one = found.listed
        put(f"{one.compaction_policy_id} of {one.of}, {size_text(one.bytes)}{', stale' if one.stale else ''}")
        put(f"  sha256 {one.output_hash}")
    return ExitCode.OK


@app.command
def verify(*, json: _Json = False) -> ExitCode:
    """Build every compaction again from the log alone, and compare the bytes; exit code 1 if one is wrong.

    Args:
        json: Answer in JSON.
    """
    from lifebus_admin.snapshots.compactions import verify_compactions  # noqa: PLC0415

    found = verify_compactions(present_settings())
    if json:
        put_json(found)
    else:
        verdict = paint("wrong", "red") if found.wrong else paint("sound", "green")
        put(f"compactions {verdict}: {len(found.right)} right, {len(found.stale)} stale, {len(found.wrong)} wrong")
        for one in found.wrong:
            put(f"  {clean(one.name)}: {clean(one.why)}")
    return ExitCode.NEGATIVE if found.wrong else ExitCode.OK


@app.command
def rebuild(*, everything: Annotated[bool, Parameter(name="--all")] = False, json: _Json = False) -> ExitCode:
    """Build what is missing, stale or wrong: the newest state caches, and the recaps of the newest sessions.

    Args:
        everything: The recaps of all sessions.
        json: Answer in JSON.
    """
    from lifebus_admin.snapshots.compactions import rebuild_compactions  # noqa: PLC0415

    done = rebuild_compactions(present_settings(), everything=everything)
    if json:
        put_json(done)
    else:
        put(f"{done.built} built, {done.kept} were right, {done.deleted} deleted")
    return ExitCode.OK


@app.command
def delete(*which: str, everything: Annotated[bool, Parameter(name="--all")] = False, json: _Json = False) -> ExitCode:
    """Delete compactions; that changes nothing but how long things take.

    Args:
        which: Their ids.
        everything: All of them.
        json: Answer in JSON.
    """
    if everything == bool(which):
        raise UsageError("name the compactions to delete, or say --all")
    from lifebus_admin.snapshots.compactions import delete_compactions  # noqa: PLC0415

    count = delete_compactions(present_settings(), None if everything else which)
    if json:
        put_json({"deleted": count})
    else:
        put(f"{count} deleted")
    return ExitCode.OK if everything or count == len(which) else ExitCode.NEGATIVE
