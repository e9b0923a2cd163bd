"""`lifebus tail`: receipts as they come, from a position, or since a time."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from lifebus.cli.arguments import ANYTHING, DEFAULTS, Connecting, Filters, UsageError, parse_moment
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import say
from lifebus_contract import Receipt

if TYPE_CHECKING:
    from lifebus._internal.view import Position
    from lifebus.client import Bus
    from lifebus.subscription import Since


def tail(
    *,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    since: str | None = None,
    follow: Annotated[bool, Parameter(negative="--no-follow")] = True,
    filters: Filters = ANYTHING,
    connecting: Connecting = DEFAULTS,
) -> ExitCode:
    """Follow receipts as they come; every one is shown, or an explicit gap where history is gone.

    Args:
        from_: Begin after this place: a POSITION, an EPOCH:POSITION as `--json` prints it, or `start`.
        since: Begin at a time: 10m ago, or 2026-11-21T20:00:00Z.
        follow: Go on with what comes; `--no-follow` ends at the newest receipt.
        filters: Which receipts.
        connecting: Where the broker is, and the form of the answer.
    """
    if from_ is not None and since is not None:
        raise UsageError("--from and --since are two ways to say where to begin; give one")
    moment = parse_moment(since) if since is not None else None
    start = parse_start(from_) if from_ is not None else moment
    if start is None and not follow:
        start = "start"
    keep = predicate(filters, moment)
    on_bus(connecting, lambda bus: _print_all(bus, start, keep, filters, follow=follow, json=connecting.json))
    return ExitCode.OK


def parse_start(text: str) -> "Position | int | str":
    """Return a cursor, a position or ``start``.

    Raises:
        UsageError: another form.
    """
    from lifebus._internal.view import Position  # noqa: PLC0415

    if text == "start":
        return text
    epoch, _, position = text.rpartition(":")
    if not position.isascii() or not position.isdigit() or len(position) > 15:  # noqa: PLR2004  below 2^53
        raise UsageError(f"--from: `{text[:64]}` is not POSITION, EPOCH:POSITION or start")
    return Position(epoch, int(position)) if epoch else int(position)


def predicate(filters: Filters, since: datetime | None = None) -> Callable[[Receipt], bool] | None:
    """Return what the filters mean for one receipt; None when they let everything through."""
    event, status = filters.lifecycle_event, filters.receipt_status
    earliest = int(since.timestamp()) if since is not None else None
    if filters.adapter is None and event is None and status is None and earliest is None:
        return None
    return lambda receipt: (
        (filters.adapter is None or receipt.adapter_id == filters.adapter)
        and (event is None or receipt.event is event)
        and (status is None or receipt.status is status)
        and (earliest is None or receipt.at_epoch_s >= earliest)
    )


async def _print_all(
    bus: "Bus",
    start: "Since",
    keep: Callable[[Receipt], bool] | None,
    filters: Filters,
    *,
    follow: bool,
    json: bool,
) -> None:
    from lifebus.cli.printing import ReceiptPrinter, print_each  # noqa: PLC0415

    printer = ReceiptPrinter(json=json)
    receipts = bus.receipts(session=filters.session_pair, since=start, where=keep, until_head=not follow)
    if follow and printer.form == "columns":
        say("following; Ctrl-C ends", color="dim")
    await print_each(receipts, lambda item: printer.show(item, receipts.cursor))
