"""`lifebus ledger caches`: views derived from the log, which anybody may delete (docs/ledger.md, "Compactions")."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from cyclopts import App, Parameter

from lifebus.cli.advice import ADVICE
from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.connection import present_settings
from lifebus.cli.exit_codes import ExitCode, NotThere, UsageError
from lifebus.cli.session_names import resolve_session
from lifebus.cli.terminal import clean, paint, put, put_bytes, put_json, put_table, say, size_text

app = App(name="caches")
_Json = Annotated[bool, Parameter(name="--json")]


@app.default
@app.command(name="list")
def list_all(*, json: _Json = False) -> ExitCode:
    """List the compactions, and say which are stale; exit code 1 if a file is not a compaction.

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
        say("there are none; `lifebus ledger caches rebuild` builds them")
    if not json:
        for file in refused:
            say(f"{clean(file.name)}: refused: {clean(file.why)}", color="red")
    return ExitCode.NEGATIVE if refused else ExitCode.OK


@app.command
def show(which: str, /, *, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """Show a compaction; a recap as it is now, even if the kept one is stale.

    Args:
        which: Its id; for the recap of a session its short name, e.g. api#3, or ADAPTER/SESSION.
        connection: Where the broker is that knows short names; with --json it is printed whole, as it is kept.
    """
    from lifebus_admin.snapshots.compactions import present_compaction  # noqa: PLC0415

    # Only a short name needs a broker.
    named = "/".join(resolve_session(which, connection)) if "#" in which else which
    found = present_compaction(present_settings(), named)
    # Said on stderr, so that stdout holds only the compaction.
    if found.anew:
        say("the kept recap is stale; this one is built anew")
    if connection.json:
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
def remove(*which: str, everything: Annotated[bool, Parameter(name="--all")] = False, json: _Json = False) -> ExitCode:
    """Delete compactions, which are only caches.

    Args:
        which: Their ids.
        everything: All of them.
        json: Answer in JSON.
    """
    # Nothing named and everything named twice are both slips.
    if everything == bool(which):
        raise UsageError("name the compactions to delete, or say --all")
    from lifebus_admin.snapshots.compactions import delete_compactions  # noqa: PLC0415

    count = delete_compactions(present_settings(), None if everything else which)
    if json:
        put_json({"deleted": count})
    else:
        put(f"{count} deleted")
        if not everything and count < len(which):
            raise NotThere(f"{len(which) - count} of {len(which)} were not there", ADVICE["no_compaction"])
    # An id that is not there is a negative answer; `--all` of none is what was asked for.
    return ExitCode.OK if everything or count == len(which) else ExitCode.NEGATIVE


def recap_lines(recap: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines: who and when, what happened, what is still open; parts that are empty are left out."""
    state = "ended" if recap["ended"] else "goes on"
    yield f"{clean(recap['adapter_id'])}/{clean(recap['harness_session_id'])}  {state}"
    yield _line("when", f"{_moment(recap['first_at_epoch_s'])} to {_moment(recap['last_at_epoch_s'])}")
    places = f"positions {recap['first_position']} to {recap['last_position']}"
    yield _line("receipts", f"{recap['receipts']}, {places}; {_starts(recap['starts'])}")
    for name in ("events", "statuses", "payloads"):
        if recap[name]:
            yield _line(name, _counts(recap[name]))
    if recap["compactions"]:
        yield _line("compactions", str(recap["compactions"]))
    if peak := _peak(recap["peak"]):
        yield _line("peak", peak)
    losses = recap["losses"]
    if losses["ever"]:
        now = ", ".join(_lost(one) for one in losses["now"]) or "nothing"
        yield _line("lost", f"{now} now; ever: {clean(', '.join(losses['ever']))}; {losses['times']} times")
    yield from _pending(recap["pending"])


def _pending(pending: Mapping[str, Any]) -> Iterator[str]:
    for frame in pending["frames"]:
        yield _line("open", f"frame {clean(frame['frame_id'])} since {_moment(frame.get('opened_at_epoch_s', 0))}")
    for one in pending["questions"]:
        yield _line("waits", f"an operator for {clean(one['client_id'])}: {clean(one['about'])}, {_at(one)}")
    for one in pending["payloads"]:
        payload = f"payload {clean(one['payload_id'])} ({clean(one['payload_kind'])})"
        yield _line("waits", f"{payload} of {clean(one['client_id'])} has no place, {_at(one)}")


def _line(name: str, text: str) -> str:
    return f"  {name:<12}{text}"


def _starts(count: int) -> str:
    return "started once" if count == 1 else f"started {count} times"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _peak(peak: Mapping[str, Any]) -> str:
    parts = [peak["level"], None if peak["used_pct"] is None else f"{peak['used_pct']} %"]
    parts.append(None if peak["used_tokens"] is None else f"{peak['used_tokens']} tokens")
    return ", ".join(part for part in parts if part is not None)


def _lost(one: Mapping[str, Any]) -> str:
    cause = one.get("cause")
    return f"{clean(one['capability'])} is {one['support']}" + (f" ({clean(cause)})" if cause else "")


def _at(one: Mapping[str, Any]) -> str:
    return f"position {one['position']}"


def _moment(epoch_s: int) -> str:
    try:
        return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"@{epoch_s}"
