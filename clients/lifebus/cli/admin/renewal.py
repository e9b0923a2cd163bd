"""`lifebus renewal` and its `continuation`: renewal profiles, and the tokens that wait for a session start."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_choice, parse_seconds
from lifebus.cli.choices import OneSession
from lifebus.cli.connection import present_settings
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.session_names import resolve_session
from lifebus.cli.terminal import clean, put, put_json, put_table, say
from lifebus_contract import InvalidRequest

if TYPE_CHECKING:
    from lifebus_supervisor.renewal.profile import RenewalSettings
    from lifebus_supervisor.renewal.records import Continuation
    from lifebus_supervisor.renewal.store import ContinuationStore

app = App(name="renewal")


@app.default
@app.command
def status(*, json: bool = False) -> ExitCode:
    """Show profiles and what is kept; never a token.  Works without a broker.

    Args:
        json: Answer in JSON.
    """
    from lifebus_supervisor.renewal.store import open_store  # noqa: PLC0415

    settings = present_settings()
    records, unreadable = open_store(settings.state_dir).records()
    now = int(time.time())
    waiting = [one for one in records if one.ended_at is None]
    # The newest first: that is the one a user asks about.
    ended = sorted((one for one in records if one.ended_at is not None), key=lambda one: -(one.ended_at or 0))
    if json:
        put_json(
            {
                "profiles": [
                    {"profile": one.profile, "adapter_id": one.adapter, "client_id": one.client_id}
                    for one in settings.renewals
                ],
                "waiting": [describe(one, now) for one in waiting],
                "ended": [describe(one, now) for one in ended],
                "strange_files": unreadable,
            }
        )
        return ExitCode.OK
    if settings.renewals:
        titles = ("profile", "adapter", "client", "kept for", "at most")
        put_table(
            titles,
            [
                (one.profile, one.adapter, one.client_id, f"{one.ttl_s} s", f"{one.max_bytes} bytes")
                for one in settings.renewals
            ],
        )
    else:
        say("no renewal profile is configured")
    for title, some in (("waiting", waiting), ("ended", ended)):
        if some:
            put("")
            put(f"{title}:")
            put_records(some, now)
    return ExitCode.OK


continuation_app = App(name="continuation", help="Store, show, take and drop continuation tokens.")
app.command(continuation_app)


@continuation_app.command(name="put")
def keep(
    thread: str,
    /,
    *,
    profile: str | None = None,
    session: OneSession = None,
    cwd: Path | None = None,
    ttl: str = "",
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Keep the token on stdin for the next session start; exit code 1 if the thread has one already.

    Args:
        thread: The thread that the token binds, as the client will report it.
        profile: The renewal profile, needed if several are configured.
        session: The session that is to be renewed, by its id or a short name, e.g. api#3; it goes before the directory.
        cwd: The directory in which the next session starts; by default this one.
        ttl: How long to keep it, e.g. 2h; by default as the profile says.
        connection: Where the broker is that knows short names, and the form of the answer.
    """
    settings, store = _open(profile)
    if session is not None and any(sign in session for sign in "#/"):
        session = _session_of(session, settings.adapter, connection)
    token = _read_token(settings.max_bytes)
    record = _record(settings, thread, token, int(parse_seconds(ttl, "--ttl")) if ttl else settings.ttl_s)
    from msgspec import structs  # noqa: PLC0415

    directory = str((cwd or Path.cwd()).absolute())
    store.save(structs.replace(record, session=session, cwd=directory))
    if connection.json:
        put_json({"thread": thread, "state": record.state, "bytes": record.size})
    else:
        say(f"kept {record.size} bytes for {clean(thread)}")
    return ExitCode.OK


def _session_of(text: str, adapter: str, connection: ConnectionOptions) -> str:
    """Return the id of a session of the profile's adapter.

    Raises:
        UsageError: it is a session of another one, or there is none.
    """
    named, session = resolve_session(text, connection)
    if named != adapter:
        raise UsageError(f"--session: `{text[:64]}` is a session of {named}, not of {adapter}")
    return session


@continuation_app.command
def show(thread: str, /, *, profile: str | None = None, consume: bool = False) -> ExitCode:
    """Write a thread's token to stdout; exit code 1 if none waits.

    Args:
        thread: The thread.
        profile: The renewal profile, needed if several are configured.
        consume: Take it out; if this ends before it has written, the same token can be taken again.
    """
    settings, store = _open(profile)
    if consume:
        return _take(store, settings.profile, thread)
    for record in store.records()[0]:
        if (record.profile, record.thread) == (settings.profile, thread) and record.token is not None:
            _write(record.token)
            return ExitCode.OK
    say("no token waits for this thread")
    return ExitCode.NEGATIVE


@continuation_app.command
def remove(thread: str, /, *, profile: str | None = None, json: bool = False) -> ExitCode:
    """Drop the record of a thread, in whatever state it is; exit code 1 if there is none.

    Args:
        thread: The thread.
        profile: The renewal profile, needed if several are configured.
        json: Answer in JSON.
    """
    settings, store = _open(profile)
    dropped = store.drop(settings.profile, thread)
    if json:
        state, size = (None, 0) if dropped is None else (dropped.state, dropped.size)
        put_json({"thread": thread, "state": state, "bytes": size})
        return ExitCode.NEGATIVE if dropped is None else ExitCode.OK
    say("nothing is kept of this thread" if dropped is None else f"dropped, it was {dropped.state.value}")
    return ExitCode.NEGATIVE if dropped is None else ExitCode.OK


@continuation_app.command(name="list")
def list_records(*, json: bool = False) -> ExitCode:
    """List what is kept, without any token.

    Args:
        json: Answer in JSON.
    """
    from lifebus_supervisor.renewal.store import open_store  # noqa: PLC0415

    records, unreadable = open_store(present_settings().state_dir).records()
    now = int(time.time())
    if json:
        put_json([describe(one, now) for one in records])
    else:
        put_records(records, now)
    for name in unreadable:
        say(f"{name} holds no record; remove it by hand", color="yellow")
    return ExitCode.OK


def describe(record: "Continuation", now: int) -> dict[str, Any]:
    """Return what may be shown of a record: everything but its token.  Ages in seconds."""
    return {
        "profile": record.profile,
        "thread": record.thread,
        "state": record.state.value,
        "payload_id": record.payload_id,
        "adapter_id": record.adapter_id,
        "session": record.session,
        "cwd": record.cwd,
        "claimed_by": record.claimed_by,
        "handed_over": record.handed_over,
        "bytes": record.size,
        "age_s": max(0, now - record.created_at),
        "expires_in_s": max(0, record.expires_at - now),
        "ended_at_epoch_s": record.ended_at,
        "note": record.note,
    }


def put_records(records: "list[Continuation]", now: int) -> None:
    """Write records as a table."""
    if not records:
        say("no continuation is kept")
        return
    titles = ("profile", "thread", "state", "session", "bytes", "age", "expires in", "note")
    rows: list[tuple[str, ...]] = []
    for record in records:
        found = describe(record, now)
        session = record.claimed_by or record.session or "-"
        ages = (f"{found['age_s']} s", f"{found['expires_in_s']} s")
        row = (record.profile, record.thread or "-", record.state.value, session, str(record.size), *ages)
        rows.append((*row, record.note or ""))
    put_table(titles, rows)


def _open(profile: str | None) -> "tuple[RenewalSettings, ContinuationStore]":
    """Return the profile that is meant, and the store.

    Raises:
        UsageError: there is none, or one of several must be named.
    """
    from lifebus_supervisor.renewal.store import open_store  # noqa: PLC0415

    settings = present_settings()
    known = {one.profile: one for one in settings.renewals}
    if not known:
        raise UsageError("no renewal profile is configured; docs/renewal.md shows how")
    # A token in the wrong profile would go to another client.
    if profile is None and len(known) > 1:
        raise UsageError(f"--profile: name one of {', '.join(known)}")
    name = next(iter(known)) if profile is None else parse_choice("--profile", profile, list(known))
    return known[name], open_store(settings.state_dir)


def _read_token(most: int) -> str:
    """Return the token on stdin, byte for byte.

    Raises:
        InvalidRequest: none, no UTF-8, or larger than the profile allows.
    """
    # One byte more than allowed shows that a token is too large, without reading an endless stdin.
    data = sys.stdin.buffer.read(most + 1)
    if len(data) > most:
        raise InvalidRequest(f"the profile allows a token of {most} bytes", code="token_too_large")
    try:
        # Byte for byte: not even a line break at the end is taken away.
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("a token is UTF-8 text", code="no_token") from None


def _record(settings: "RenewalSettings", thread: str, token: str, ttl_s: int) -> "Continuation":
    from lifebus.requests import new_id  # noqa: PLC0415
    from lifebus_contract.ids import PAYLOAD  # noqa: PLC0415
    from lifebus_supervisor.renewal.records import Continuation, ContinuationState  # noqa: PLC0415

    if not 0 < len(thread) <= 256 or not thread.isprintable():  # noqa: PLR2004  an identifier's length
        raise UsageError("a thread has 1 to 256 printable characters")
    now = int(time.time())
    return Continuation(
        payload_id=new_id(PAYLOAD),
        profile=settings.profile,
        client_id=settings.client_id,
        adapter_id=settings.adapter,
        state=ContinuationState.PENDING,
        created_at=now,
        expires_at=now + ttl_s,
        thread=thread,
        token=token,
        size=len(token.encode()),
    )


def _take(store: "ContinuationStore", profile: str, thread: str) -> ExitCode:
    from lifebus.requests import new_id  # noqa: PLC0415
    from lifebus_supervisor.renewal.records import ContinuationState  # noqa: PLC0415

    record = store.claim_for_operator(profile, thread, new_id("clm_"))
    if record is None:
        say("no token waits for this thread")
        return ExitCode.NEGATIVE
    # Written before it is marked as consumed: if the reader is gone, the same token can be taken again.
    _write(str(record.token))
    store.finish(record, ContinuationState.CONSUMED, "taken by hand")
    return ExitCode.OK


def _write(token: str) -> None:
    """Write a token to stdout, byte for byte, and wait until it has left.

    Raises:
        OSError: the reader is gone, so the token stays.
    """
    # Text that is still buffered would come after the token otherwise.
    sys.stdout.flush()
    sys.stdout.buffer.write(token.encode())
    sys.stdout.buffer.flush()
    if sys.stdout.isatty():
        sys.stderr.write("\n")
