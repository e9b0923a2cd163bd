"""`lifebus receipts`: read, export and verify the ledger."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from cyclopts import App, Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.connection import on_bus, present_settings
from lifebus.cli.errors import say_lines
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.selection import ANY_RECEIPT, ReceiptChoice, ReceiptFilter
from lifebus.cli.session_names import SessionNames
from lifebus.cli.terminal import put, put_bytes, say
from lifebus_contract import LifebusError, TransportError

if TYPE_CHECKING:
    from lifebus.client import Bus
    from lifebus_transports.messages.reads import Backfill, WireReceipt

T = TypeVar("T")
Keep = Callable[[bytes], bool]
"""Whether a receipt is meant, by its bytes."""

app = App(name="receipts")
_WINDOW: Final = 1_024


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
        say_lines([f"no receipt `{which[:64]}`", "`lifebus receipts list` lists them, with their positions"])
        return ExitCode.NEGATIVE
    import msgspec  # noqa: PLC0415

    put((stored.receipt if connection.json else msgspec.json.format(stored.receipt)).decode())
    return ExitCode.OK


@app.command
def export(
    *,
    rescue: Annotated[bool, Parameter(negative="")] = False,
    filters: ReceiptFilter = ANY_RECEIPT,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Write the ledger to stdout, one canonical receipt a line (RFC 8785); without a broker, from the file.

    Exit code 1 where receipts are damaged: it ends before the first of them.

    Args:
        rescue: Go on past damaged receipts, from the file, and write a line for them: {"damaged":{…}}.
        filters: Which receipts.
        connection: Where the broker is, and the form of the answer.
    """
    choice = filters.chosen(DEFAULT_CONNECTION if rescue else connection, ask=not rescue)
    query, keep = choice.query(canaries=True), keeper(choice)
    if rescue:
        return _rescue(query, keep)
    written = _Written()
    try:
        try:
            on_bus(connection, lambda bus: _export(bus, query, keep, written))
        except TransportError as fault:
            for one in _receipts_here(fault, query):
                written.put(one, keep)
    except LifebusError as fault:
        if fault.code != "row_damaged":
            raise
        further = "`lifebus receipts export --rescue` goes past what is damaged"
        written.damage = [f"the export is not whole: {fault.detail}", further]
    return written.end()


@app.command
def verify(*, tail: int | None = None, json: Annotated[bool, Parameter(name="--json")] = False) -> ExitCode:
    """Check the ledger file: the same as `lifebus ledger verify`.

    Args:
        tail: Check only so many of the newest receipts, and nothing else.
        json: Answer in JSON.
    """
    from lifebus.cli.admin import ledger  # noqa: PLC0415

    return ledger.verify(tail=tail, json=json)


def keeper(choice: ReceiptChoice) -> Keep:
    """Return what tells from its bytes whether a receipt is meant, among those that a ledger's answer has."""
    if choice.is_asked_in_full:
        return lambda _: True
    from lifebus._internal.answers import decode_recorded  # noqa: PLC0415

    # Most receipts are of no payload at all: the bytes are searched first.
    part = b"" if choice.payload is None else dumps(choice.payload, ensure_ascii=False).encode()
    return lambda receipt: part in receipt and choice.includes(decode_recorded(receipt))


async def _receipts(bus: "Bus", query: "Backfill", after: int, keep: Keep) -> "AsyncIterator[WireReceipt]":
    """Yield the receipts after a position up to the newest."""
    from msgspec.structs import replace  # noqa: PLC0415

    while True:
        page = await bus.read(replace(query, after=after, limit=1024))
        for one in page.rows:
            if keep(one.receipt):
                yield one
        # Receipts may be pruned while the pages are read: then reading goes on at the new floor.
        after = max(page.next, page.floor)
        if page.complete:
            return


async def newest(bus: "Bus", query: "Backfill", count: int, keep: Keep) -> "tuple[tuple[str, int], list[WireReceipt]]":
    """Return where the ledger ends, and the last receipts that are meant, reading further back in growing steps."""
    ledger = (await bus.status()).ledger
    window = max(count, _WINDOW)
    while True:
        after = max(ledger.floor, ledger.head - window)
        found = [one async for one in _receipts(bus, query, after, keep)]
        if len(found) >= count or after == ledger.floor:
            return (ledger.epoch, ledger.head), found[-count:]
        # Growing steps: a filter that matches seldom needs few requests, and a common one reads little.
        window *= 8


async def _find(bus: "Bus", which: str) -> "WireReceipt | None":
    from lifebus._internal.answers import decode_recorded  # noqa: PLC0415
    from lifebus_transports.messages.reads import Backfill  # noqa: PLC0415

    # Reading below the floor gives a page that only says so.
    floor = (await bus.status()).ledger.floor
    if which.isascii() and which.isdigit() and len(which) <= 15:  # noqa: PLR2004  below 2^53
        after = max(floor, int(which) - 1)
        page = await bus.read(Backfill(after=after, limit=1))
        return next((one for one in page.rows if one.position == int(which)), None)
    # No index knows receipt ids: this reads the ledger, page by page.
    async for one in _receipts(bus, Backfill(), floor, lambda _: True):
        if decode_recorded(one.receipt).receipt_id == which:
            return one
    return None


class _Written:
    """What an export has written; `damage` says what it could not, and what to do."""

    def __init__(self) -> None:
        self.count = 0
        self.damage: list[str] = []

    def put(self, receipt: bytes, keep: Keep) -> None:
        """Write a receipt, if it is meant."""
        if keep(receipt):
            put_bytes(receipt)
            self.count += 1

    def end(self) -> ExitCode:
        """Say how much there was, and return the exit code."""
        # Before the count: a pipe that was closed must be noticed first.
        sys.stdout.flush()
        say(f"{self.count} receipts")
        if not self.damage:
            return ExitCode.OK
        say_lines(self.damage)
        return ExitCode.NEGATIVE


async def _export(bus: "Bus", query: "Backfill", keep: Keep, written: _Written) -> None:
    async for one in _receipts(bus, query, (await bus.status()).ledger.floor, lambda _: True):
        written.put(one.receipt, keep)


def _rescue(query: "Backfill", keep: Keep) -> ExitCode:
    """Write what the file holds that is sound, and a line for each damaged range between."""
    import msgspec  # noqa: PLC0415

    from lifebus_admin.inspection import DamagedRange, rescued_receipts  # noqa: PLC0415
    from lifebus_admin.ledger_files.files import ledger_file  # noqa: PLC0415

    written, damaged = _Written(), 0
    for one in rescued_receipts(ledger_file(present_settings()), query):
        if isinstance(one, DamagedRange):
            put_bytes(msgspec.json.encode({"damaged": one}, order="sorted"))
            damaged += one.through - one.position + 1
        else:
            written.put(one, keep)
    if damaged:
        what = f"{damaged} receipts are damaged or missing; the export names them in a line of its own"
        written.damage = [what, "`lifebus ledger verify` lists everything that is wrong"]
    return written.end()


def _receipts_here(fault: TransportError, query: "Backfill") -> Iterator[bytes]:
    from lifebus_admin.inspection import receipts_of_file  # noqa: PLC0415

    return receipts_of_file(_file_instead(fault), query)


def _file_instead(fault: TransportError) -> Path:
    """Return the ledger file to read when no broker answers.

    Raises:
        TransportError: something else is wrong, or the settings name no file.
    """
    if fault.code != "no_broker":
        raise fault

    file = present_settings().ledger_location.file
    if file is None:  # a ledger that is not kept ended with its broker
        raise fault
    say(f"no broker answers; reading {file}", color="dim")
    return file


async def _named(bus: "Bus", names: SessionNames, work: Awaitable[T]) -> T:
    """Return what the work returns, once the names of all sessions are known."""
    done = await work
    await names.learn(bus)
    return done
