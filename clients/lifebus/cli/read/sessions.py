"""`lifebus sessions`."""

from datetime import UTC, datetime

from lifebus.cli.arguments import DEFAULTS, Connecting, parse_session
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import put_json, put_table, say


def sessions(
    session: str | None = None,
    /,
    *,
    adapter: str | None = None,
    open_only: bool = False,
    connecting: Connecting = DEFAULTS,
) -> ExitCode:
    """List the sessions in the ledger, the newest last.

    Args:
        session: Only this one: ADAPTER/SESSION; exit code 1 when there is none.
        adapter: Only this adapter's.
        open_only: Only those that have not ended.
        connecting: Where the broker is, and the form of the answer.
    """
    pair = parse_session(session) if session is not None else None
    found = [
        one
        for one in on_bus(connecting, lambda bus: bus.sessions(pair))
        if (adapter is None or one.adapter_id == adapter) and not (open_only and one.ended)
    ]
    if connecting.json:
        put_json(found)
    elif found:
        titles = ("adapter", "session", "receipts", "last event", "status", "last at", "state")
        put_table(
            titles,
            [
                (
                    one.adapter_id,
                    one.harness_session_id,
                    str(one.receipts),
                    one.last_event.value,
                    one.last_status.value,
                    _moment(one.last_at_epoch_s),
                    "ended" if one.ended else f"open, {len(one.open_frames)} frames",
                )
                for one in found
            ],
            color_of={"failed": "red", "degraded": "yellow", "ended": "dim"},
        )
    else:
        say("no sessions")
    return ExitCode.OK if found or pair is None else ExitCode.NEGATIVE


def _moment(epoch_s: int) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
