"""`lifebus receipts` and `lifebus tail`: read, export, verify and follow the ledger."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import datetime
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from cyclopts import App, Parameter

from lifebus.cli.arguments import ANY_RECEIPT, DEFAULT_CONNECTION, ConnectionOptions, ReceiptFilter, parse_moment
from lifebus.cli.connection import on_bus, present_settings
from lifebus.cli.errors import say_lines
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.session_names import SessionNames, resolve_filter
from lifebus.cli.terminal import put, put_bytes, say
from lifebus_contract import LifebusError, Receipt, TransportError

if TYPE_CHECKING:
    from lifebus._internal.view import Position
    from lifebus.client import Bus
    from lifebus.subscription import Since
    from lifebus_transports.messages.reads import Backfill, WireReceipt

T = TypeVar("T")

app = App(name="receipts")
_WINDOW: Final = 1_024


@app.default
@app.command(name="list")
def list_receipts(
    *,
    last: Annotated[int, Parameter(name=("--last", "-n"))] = 20,
    since: str | None = None,
    canaries: Annotated[bool, Parameter(negative="")] = False,
    filters: ReceiptFilter = ANY_RECEIPT,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """List the newest receipts, the newest last.

    Args:
        last: How many; the default is 20.
        since: Only since a time: 10m ago, or 2026-11-21T20:00:00Z.
        canaries: Also the canaries of `lifebus hooks test`.
        filters: Which receipts.
        connection: Where the broker is, and the form of the answer.
    """
    if last < 1:
        raise UsageError("--last: at least 1")
    from lifebus._internal.answers import decode_recorded  # noqa: PLC0415
    from lifebus._internal.view import Position  # noqa: PLC0415
    from lifebus.cli.printing import ReceiptPrinter  # noqa: PLC0415

    query = _query(resolve_filter(filters, connection), since, canaries=canaries)
    names = SessionNames()
    epoch, stored = on_bus(connection, lambda bus: _named(bus, names, _newest(bus, query, last, filters.payload)))
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
    since: str | None = None,
    rescue: Annotated[bool, Parameter(negative="")] = False,
    filters: ReceiptFilter = ANY_RECEIPT,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Write the ledger to stdout, one canonical receipt a line (RFC 8785); without a broker, from the file.

    Exit code 1 where receipts are damaged: it ends before the first of them.

    Args:
        since: Only since a time: 10m ago, or 2026-11-21T20:00:00Z.
        rescue: Go on past damaged receipts, from the file, and write a line for them: {"damaged":{…}}.
        filters: Which receipts.
        connection: Where the broker is, and the form of the answer.
    """
    query = _query(resolve_filter(filters, DEFAULT_CONNECTION if rescue else connection), since, canaries=True)
    if rescue:
        return _rescue(query, filters.payload)
    written = _Written()
    try:
        try:
            on_bus(connection, lambda bus: _export(bus, query, filters.payload, written))
        except TransportError as fault:
            for one in _receipts_here(fault, query):
                written.put(one, filters.payload)
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


def _query(filters: ReceiptFilter, since: str | None, *, canaries: bool) -> "Backfill":
    from lifebus_transports.messages.reads import Backfill  # noqa: PLC0415

    moment = parse_moment(since) if since is not None else None
    return Backfill(
        adapter_id=filters.adapter_id,
        session=filters.session_pair,
        event=filters.lifecycle_event,
        status=filters.receipt_status,
        since_epoch_s=max(0, int(moment.timestamp())) if moment is not None else None,
        waiting=filters.waiting,
        failed=filters.failed,
        canaries=canaries,
    )


async def _receipts(
    bus: "Bus", query: "Backfill", after: int, payload: str | None = None
) -> "AsyncIterator[WireReceipt]":
    """Yield the receipts after a position up to the newest."""
    from msgspec.structs import replace  # noqa: PLC0415

    while True:
        page = await bus.read(replace(query, after=after, limit=1024))
        for one in page.rows:
            if _is_about(one.receipt, payload):
                yield one
        # Receipts may be pruned while the pages are read: then reading goes on at the new floor.
        after = max(page.next, page.floor)
        if page.complete:
            return


def _is_about(receipt: bytes, payload: str | None) -> bool:
    """Whether a receipt says what became of a payload; of any, where none is asked for."""
    if payload is None:
        return True
    # Most receipts are of no payload at all: the bytes are searched first.
    if dumps(payload, ensure_ascii=False).encode() not in receipt:
        return False
    from lifebus._internal.answers import decode_recorded  # noqa: PLC0415

    return any(one.payload_id == payload for one in decode_recorded(receipt).payload_receipts)


async def _newest(bus: "Bus", query: "Backfill", count: int, payload: str | None) -> "tuple[str, list[WireReceipt]]":
    """Return the last receipts that match, reading further back in growing steps."""
    ledger = (await bus.status()).ledger
    window = max(count, _WINDOW)
    while True:
        after = max(ledger.floor, ledger.head - window)
        found = [one async for one in _receipts(bus, query, after, payload)]
        if len(found) >= count or after == ledger.floor:
            return ledger.epoch, found[-count:]
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
    async for one in _receipts(bus, Backfill(), floor):
        if decode_recorded(one.receipt).receipt_id == which:
            return one
    return None


class _Written:
    """What an export has written; `damage` says what it could not, and what to do."""

    def __init__(self) -> None:
        self.count = 0
        self.damage: list[str] = []

    def put(self, receipt: bytes, payload: str | None) -> None:
        """Write a receipt, if it is about the payload."""
        if _is_about(receipt, payload):
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


async def _export(bus: "Bus", query: "Backfill", payload: str | None, written: _Written) -> None:
    async for one in _receipts(bus, query, (await bus.status()).ledger.floor, payload):
        written.put(one.receipt, None)


def _rescue(query: "Backfill", payload: str | None) -> ExitCode:
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
            written.put(one, payload)
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


def tail(
    *,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    since: str | None = None,
    follow: Annotated[bool, Parameter(negative="--no-follow")] = True,
    canaries: Annotated[bool, Parameter(negative="")] = False,
    filters: ReceiptFilter = ANY_RECEIPT,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Follow receipts as they come; every one is shown, or an explicit gap where history is gone.

    Args:
        from_: Begin after this place: a POSITION, an EPOCH:POSITION as `--json` prints it, or `start`.
        since: Begin at a time: 10m ago, or 2026-11-21T20:00:00Z.
        follow: Go on with what comes; `--no-follow` ends at the newest receipt.
        canaries: Also the canaries of `lifebus hooks test`.
        filters: Which receipts.
        connection: Where the broker is, and the form of the answer.
    """
    if from_ is not None and since is not None:
        raise UsageError("--from and --since are two ways to say where to begin; give one")
    moment = parse_moment(since) if since is not None else None
    start = parse_start(from_) if from_ is not None else moment
    if start is None and not follow:
        start = "start"
    filters = resolve_filter(filters, connection)
    keep = predicate(filters, moment)
    on_bus(
        connection,
        lambda bus: _print_all(bus, start, keep, filters, canaries=canaries, follow=follow, json=connection.json),
        lasting=follow,
    )
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


def predicate(filters: ReceiptFilter, since: datetime | None = None) -> Callable[[Receipt], bool] | None:
    """Return what the filters mean for one receipt, selections aside; None when they let everything through."""
    adapter, event, status = filters.adapter_id, filters.lifecycle_event, filters.receipt_status
    # Receipts count whole seconds, so the bound does as well.
    earliest = int(since.timestamp()) if since is not None else None
    asked = (adapter, event, status, earliest, filters.payload)
    if all(one is None for one in asked):
        return None
    return lambda receipt: (
        (adapter is None or receipt.adapter_id == adapter)
        and (event is None or receipt.event is event)
        and (status is None or receipt.status is status)
        and (earliest is None or receipt.at_epoch_s >= earliest)
        and (filters.payload is None or any(one.payload_id == filters.payload for one in receipt.payload_receipts))
    )


async def _print_all(
    bus: "Bus",
    start: "Since",
    keep: Callable[[Receipt], bool] | None,
    filters: ReceiptFilter,
    *,
    canaries: bool,
    follow: bool,
    json: bool,
) -> None:
    from lifebus.cli.printing import ReceiptPrinter, print_each  # noqa: PLC0415

    names = SessionNames()
    await names.learn(bus)
    printer = ReceiptPrinter(json=json, names=names)
    receipts = bus.receipts(
        session=filters.session_pair,
        since=start,
        where=keep,
        waiting=filters.waiting,
        failed=filters.failed,
        canaries=canaries,
        until_head=not follow,
        gaps="yield",
    )
    if follow and printer.form == "columns":
        say("following; Ctrl-C ends", color="dim")
    await print_each(names.known(bus, receipts), lambda item: printer.show(item, receipts.cursor))


async def _named(bus: "Bus", names: SessionNames, work: Awaitable[T]) -> T:
    """Return what the work returns, once the names of all sessions are known."""
    done = await work
    await names.learn(bus)
    return done
