"""`lifebus tail`: receipts as they come."""

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.read.positions import parse_start
from lifebus.cli.read.receipt_pages import keeper, newest
from lifebus.cli.selection import ANY_RECEIPT, ReceiptChoice, ReceiptFilter
from lifebus.cli.session_names import SessionNames
from lifebus.cli.terminal import say

if TYPE_CHECKING:
    from lifebus._internal.view import Gap, Position
    from lifebus.client import Bus
    from lifebus.subscription import Since
    from lifebus_contract import Receipt


def tail(
    *,
    last: Annotated[int | None, Parameter(name=("--last", "-n"))] = None,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    follow: Annotated[bool | None, Parameter(name=("--follow", "-f"), negative="--no-follow")] = None,
    canaries: Annotated[bool, Parameter(negative="")] = False,
    filters: ReceiptFilter = ANY_RECEIPT,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Follow receipts as they come; every one is shown, or an explicit gap where history is gone.

    Args:
        last: Begin with this many of the newest.
        from_: Begin after this place: a POSITION, an EPOCH:POSITION as `--json` prints it, or `start`.
        follow: Go on with what comes; `--no-follow` ends at the newest receipt, and so does --until.
        canaries: Also the canaries of `lifebus hooks test`.
        filters: Which receipts; with --since it begins at that time.
        connection: Where the broker is, and the form of the answer.
    """
    if from_ is not None and (filters.since is not None or last is not None):
        raise UsageError("--from says where to begin, as --since and --last do; give it alone")
    if last is not None and last < 0:
        raise UsageError("--last, -n: a number of receipts, not below 0")
    start = None if from_ is None else parse_start(from_)
    follows = filters.until is None if follow is None else follow
    choice = filters.chosen(connection)

    async def show(bus: "Bus") -> None:
        place: Since = start if last is None else await _before_last(bus, choice, last, canaries=canaries)
        if place is None:
            place = _beginning(choice, follows=follows)
        await _print_all(bus, place, choice, canaries=canaries, follow=follows, json=connection.json)

    on_bus(connection, show, lasting=follows)
    return ExitCode.OK


def _beginning(choice: ReceiptChoice, *, follows: bool) -> "Since":
    """Return where to begin if no place was named: at the asked time, else with what comes, or at the start."""
    from datetime import UTC, datetime  # noqa: PLC0415

    if choice.earliest_s is not None:
        return datetime.fromtimestamp(choice.earliest_s, UTC)
    return None if follows else "start"


async def _before_last(bus: "Bus", choice: ReceiptChoice, count: int, *, canaries: bool) -> "Position":
    """Return the place after which the last so many receipts are that are meant."""
    from lifebus._internal.view import Position  # noqa: PLC0415

    (epoch, head), found = await newest(bus, choice.query(canaries=canaries), max(1, count), keeper(choice))
    return Position(epoch, found[0].position - 1 if found and count else head)


async def _print_all(
    bus: "Bus", start: "Since", choice: ReceiptChoice, *, canaries: bool, follow: bool, json: bool
) -> None:
    from lifebus.cli.printing import ReceiptPrinter, print_each  # noqa: PLC0415

    names = SessionNames()
    await names.learn(bus)
    printer = ReceiptPrinter(json=json, names=names)
    receipts = bus.receipts(
        session=choice.session,
        since=start,
        where=choice.includes,
        waiting=choice.waiting,
        failed=choice.failed,
        canaries=canaries,
        until_head=not follow,
        gaps="yield",
    )
    # Whoever sees nothing come has to know that nothing is wrong.
    if follow and sys.stderr.isatty():
        say("waiting for what comes; Ctrl-C ends", color="dim")
    is_empty = True

    def show(item: "Receipt | Gap") -> None:
        nonlocal is_empty
        is_empty = False
        printer.show(item, receipts.cursor)

    await print_each(names.known(bus, receipts), show)
    if is_empty and not json:
        say("no receipts", color="dim")
