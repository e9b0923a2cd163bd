"""`lifebus ledger boot`: the state rebuilt from a snapshot and the log, proved, and what was open (docs/ledger.md)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.connection import on_bus, present_settings
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import clean, paint, put, put_json, say
from lifebus_contract import LifebusError, TransportError

if TYPE_CHECKING:
    from lifebus_supervisor.configuration.settings import Settings
    from lifebus_transports.messages.snapshots import ReviseAnswer

_DIGEST: Final = re.compile(r"\b([0-9a-f]{16})[0-9a-f]{48}\b")


def boot(
    which: str | None = None,
    /,
    *,
    check: bool = False,
    live: bool = False,
    rebuild: bool = False,
    revise: Annotated[str | None, Parameter(name="--revise")] = None,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Boot a snapshot from the log alone, prove every byte, and show what was open then; nothing is written.

    Args:
        which: The snapshot's id, its file, or an archive; the newest snapshot by default.
        check: Only check: print the twelve steps.
        live: Ask the running broker what is open now, and boot nothing.
        rebuild: Build a new ledger from the snapshot and the log alone, and compare it with this one byte for byte.
        revise: First record that the pins may be those of today, with this reason.
        connection: Where the broker is, and the form of the answer.
    """
    # Each answers another question; together their output would be ambiguous.
    if sum((check, live, rebuild)) > 1:
        raise UsageError("--check, --live and --rebuild exclude each other")
    if live:
        _show_view(_live(connection), json=connection.json)
        return ExitCode.OK

    settings = present_settings()
    # Before the boot, which checks against the revised pins.
    if revise is not None:
        if which is not None and Path(which).is_file() and not which.endswith(".json"):
            raise UsageError("--revise: an archive stays as it is; `lifebus ledger import` takes its log in first")
        _show_revision(_revise(settings, which, revise, connection), json=connection.json)
    if rebuild:
        return _rebuild(settings, which, json=connection.json)
    return _boot(settings, which, check=check, json=connection.json)


def _boot(settings: "Settings", which: str | None, *, check: bool, json: bool) -> ExitCode:
    from lifebus_admin.snapshots.boot import boot_here  # noqa: PLC0415

    steps: list[dict[str, Any]] = []

    def done(step: dict[str, Any]) -> None:
        steps.append(step)
        if not json:
            checked = clean(_shortened(step["checked"]))
            put(f"{paint('ok', 'green')}  {step['number']:2}  {step['name'].ljust(28)}{checked}")

    try:
        view = boot_here(settings, which, done)
    except LifebusError as fault:
        # A boot that failed at a step is an answer; anything else is an error of the command.
        if not json or fault.code != "cold_boot":
            raise
        put_json({"ok": False, "steps": steps, "failed": _plain(fault)})
        return ExitCode.NEGATIVE
    if json:
        put_json({"ok": True, "steps": steps, **({} if check else {"resume": view})})
    elif not check:
        put("")
        _show_view(view, json=False)
    return ExitCode.OK


def _shortened(text: str) -> str:
    """Return a text for people: where several digests stand, each by its first digits."""
    return _DIGEST.sub(r"\1…", text) if len(_DIGEST.findall(text)) > 1 else text


def _plain(fault: LifebusError) -> dict[str, Any]:
    """Return a failed cold boot as plain data."""
    named = ("step", "position", "within", "reason")
    return {**{name: getattr(fault, name, None) for name in named}, "detail": fault.detail}


def _show_view(view: dict[str, Any], *, json: bool) -> None:
    if json:
        put_json(view)
        return
    for line in resume_lines(view):
        put(line)


def _live(connection: ConnectionOptions) -> dict[str, Any]:
    """Ask the broker what is open now."""
    import msgspec  # noqa: PLC0415

    view: dict[str, Any] = msgspec.json.decode(on_bus(connection, lambda bus: bus.saves.resume()).raw)
    return view


def _revise(settings: "Settings", which: str | None, reason: str, connection: ConnectionOptions) -> "ReviseAnswer":
    """Have the broker write the record, or without one write it into the file, which no other process may hold then."""
    from lifebus_admin.snapshots.boot import revise_file, stored_snapshot  # noqa: PLC0415

    snapshot_id = stored_snapshot(settings, which).snapshot_id
    try:
        return on_bus(connection, lambda bus: bus.saves.revise(snapshot_id, reason))
    except TransportError as fault:
        # Only without any broker may this process write into the ledger file itself.
        if fault.code != "no_broker":
            raise
    say(f"no broker answers; writing into {settings.ledger_location}", color="dim")
    return revise_file(settings, snapshot_id, reason)


def _show_revision(answer: "ReviseAnswer", *, json: bool) -> None:
    show = say if json else put
    show(f"revision {answer.number} of {clean(answer.actor)}:")
    for change in answer.changes:
        show(f"  {clean(change)}")


def _rebuild(settings: "Settings", which: str | None, *, json: bool) -> ExitCode:
    from lifebus_admin.snapshots.verify_rebuild import rebuild  # noqa: PLC0415

    compared = rebuild(settings, which)
    if json:
        put_json(compared)
    else:
        for one in compared.parts:
            verdict = paint("different", "red") if one.difference else paint("identical", "green")
            put(f"{verdict}  {one.name.ljust(14)}{one.bytes} bytes  {clean(one.difference or '')}".rstrip())
        put(
            f"position {compared.position}, rebuilt from {compared.lines} lines and the snapshot {compared.snapshot_id}"
        )
    return ExitCode.NEGATIVE if any(one.difference for one in compared.parts) else ExitCode.OK


_PENDING: Final = {
    "PENDING_ROLL": ("frame_id", "no end was recorded: it has to be run to its end, or ended"),
    "PENDING_CONSENT": ("about", "an operator has to answer"),
    "PENDING_HANDOUT": ("payload_id", "accepted and not placed: it has to be handed out"),
}
"""Of each kind the field that names one, and what has to happen (docs/ledger.md, "Resume")."""


def resume_lines(view: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a resume view, `fold.working.WorkingSet` as plain data."""
    sessions = view["sessions"]
    yield f"at position {view['position']}: {_counted(len(sessions), 'live session')}"
    for session in sessions:
        short = f"{clean(session['name'])}  " if session.get("name") else ""
        yield f"  {short}{_name(session)}  {_session(session)}"
    for adapter_id, session, words in view["weaker"]:
        scope = clean(adapter_id if session is None else f"{adapter_id}/{session}")
        said = ", ".join(f"{clean(name)} is {clean(now)}" for name, now in sorted(words.items()))
        yield f"  {paint('weaker', 'yellow')}  {scope}  {said}"
    yield from _pending_lines(view["pending_state"] or {})


def _pending_lines(pending: dict[str, Any]) -> Iterator[str]:
    waiting = sum(len(pending.get(kind, ())) for kind in _PENDING)
    yield f"{_counted(waiting, 'thing')} pending" if waiting else "nothing is pending"
    for kind, (field, what) in _PENDING.items():
        for one in pending.get(kind, ()):
            yield f"  {paint(kind, 'yellow')}  {_name(one)}  {clean(one[field])}, position {one['position']}: {what}"
        left = pending.get("left_out", {}).get(kind)
        if left:
            yield f"  {kind}  {left} more, older ones"


def _session(session: dict[str, Any]) -> str:
    facts = [f"last {session['last_event']} at {session['last_position']}"]
    if frames := session.get("frames"):
        facts.append(_counted(len(frames), "open frame"))
    if level := session.get("level"):
        facts.append(f"pressure {level}")
    if compactions := session.get("compactions"):
        facts.append(_counted(compactions, "compaction"))
    return clean(", ".join(facts))


def _name(one: dict[str, Any]) -> str:
    return clean(f"{one['adapter_id']}/{one['harness_session_id']}")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
