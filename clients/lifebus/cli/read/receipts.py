"""`lifebus receipts`: read, export and verify the ledger."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import App, Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, NotThere, UsageError
from lifebus.cli.read.export import export
from lifebus.cli.read.receipt_pages import PlacedReceipt, keeper, newest, receipts_after
from lifebus.cli.selection import ANY_RECEIPT, ReceiptFilter
from lifebus.cli.session_names import SessionNames
from lifebus.cli.terminal import put, say

if TYPE_CHECKING:
    from lifebus.client import Bus

T = TypeVar("T")
app = App(name="receipts")
app.command(export)


@app.default
@app.command(name="list")
def list_receipts(
    *,
    last: Annotated[int, Parameter(name=("--last", "-n"))] = 20,
    canaries: Annotated[bool, Parameter(negative="")] = False,
    filters: ReceiptFilter = ANY_RECEIPT,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """List the newest receipts, the newest last.

    Args:
        last: How many; the default is 20.
        canaries: Also the canaries of `lifebus hooks test`.
        filters: Which receipts.
        connection: Where the broker is, and the form of the answer.
    """
    if last < 1:
        raise UsageError("--last: at least 1")
    from lifebus._internal.answers import decode_recorded  # noqa: PLC0415
    from lifebus._internal.view import Position  # noqa: PLC0415
    from lifebus.cli.printing import ReceiptPrinter  # noqa: PLC0415

    choice = filters.chosen(connection)
    query, keep = choice.query(canaries=canaries), keeper(choice)
    names = SessionNames()
    (epoch, _), stored = on_bus(connection, lambda bus: _named(bus, names, newest(bus, query, last, keep)))
    printer = ReceiptPrinter(json=connection.json, names=names)
    for one in stored:
        printer.show(decode_recorded(one.receipt), Position(epoch, one.position))
    if not stored:
        say("no receipts")
    return ExitCode.OK


@app.command
def show(which: str, /, *, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """Print one receipt whole.

    Args:
        which: Its position, or its receipt id.
        connection: Where the broker is, and the form of the answer.
    """
    stored = on_bus(connection, lambda bus: _find(bus, which))
    if stored is None:
        raise NotThere(
            f"there is no receipt `{which[:64]}`", "`lifebus receipts list` lists them, with their positions"
        )
    import msgspec  # noqa: PLC0415

    put((stored.receipt if connection.json else msgspec.json.format(stored.receipt)).decode())
    return ExitCode.OK


@app.command
def verify(*, tail: int | None = None, json: Annotated[bool, Parameter(name="--json")] = False) -> ExitCode:
    """Check the ledger file: the same as `lifebus ledger verify`.

    Args:
        tail: Check only this many of the newest receipts, and nothing else.
        json: Answer in JSON.
    """
    from lifebus.cli.admin import ledger  # noqa: PLC0415

    return ledger.verify(tail=tail, json=json)


async def _find(bus: "Bus", which: str) -> PlacedReceipt | None:
    from lifebus._internal.answers import decode_recorded  # noqa: PLC0415
    from lifebus_transports.messages.reads import Backfill  # noqa: PLC0415

    # Reading below the floor gives a page that only says so.
    floor = (await bus.status()).ledger.floor
    if which.isascii() and which.isdigit() and len(which) <= 15:  # noqa: PLR2004  below 2^53
        after = max(floor, int(which) - 1)
        page = await bus.read(Backfill(after=after, limit=1))
        return next((one for one in page.rows if one.position == int(which)), None)
    # No index knows receipt ids: this reads the ledger, page by page.
    async for one in receipts_after(bus, Backfill(), floor, lambda _: True):
        if decode_recorded(one.receipt).receipt_id == which:
            return one
    return None


async def _named(bus: "Bus", names: SessionNames, work: Awaitable[T]) -> T:
    """Return what the work returns, once the names of all sessions are known."""
    done = await work
    await names.learn(bus)
    return done
