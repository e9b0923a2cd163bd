"""`lifebus receipts export`: what the ledger holds, as JSON lines, CSV or Parquet, from a broker or from its file."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter
from msgspec.structs import replace

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.connection import on_bus, present_settings
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.read.positions import parse_start
from lifebus.cli.read.receipt_pages import Keep, ReceiptPage, keeper, pages_after
from lifebus.cli.selection import ANY_RECEIPT, ReceiptFilter
from lifebus.cli.terminal import put_bytes, say, say_lines
from lifebus_contract import LifebusError, TransportError

if TYPE_CHECKING:
    from lifebus.client import Bus
    from lifebus_transports.messages.reads import Backfill

Format = Literal["jsonl", "csv", "parquet", "cloudevents"]
"""Forms of an export."""

_NO_HEADER: Final = Parameter(negative="--no-header")


def export(
    *,
    format: Format = "jsonl",  # noqa: A002  the flag's name
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    header: Annotated[bool, _NO_HEADER] = True,
    rescue: Annotated[bool, Parameter(negative="")] = False,
    filters: ReceiptFilter = ANY_RECEIPT,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Write the ledger to stdout, one canonical receipt a line (RFC 8785), or a table; without a broker, from the file.

    If receipts are damaged, it ends before the first of them, with exit code 1.

    Args:
        format: jsonl (by default), csv, cloudevents (as JSON lines), or parquet, which needs 'lifebus[parquet]'.
        from_: Begin after this place, EPOCH:POSITION or POSITION: the last line on stderr says with which one to go on.
        header: CSV begins with the names of its columns; leave them out with --no-header.
        rescue: Go on past damaged receipts, from the file, and write a line for them: {"damaged":{…}}.
        filters: Which receipts.
        connection: Where the broker is, and the form of the answer.
    """
    if format != "jsonl" and (rescue or connection.json):
        raise UsageError(f"--format {format}: --rescue and --json write JSON lines; leave them out")
    if rescue and from_ is not None:
        raise UsageError("--rescue reads the whole file; leave --from out")
    start = Start(from_)
    choice = filters.chosen(DEFAULT_CONNECTION if rescue else connection, ask=not rescue)
    query, keep = replace(choice.query(canaries=True), after=start.position), keeper(choice)
    if rescue:
        return _rescue(query, keep)
    written = Export(format, start, keep, header=header)
    try:
        try:
            on_bus(connection, lambda bus: written.write_all(bus, query))
        except TransportError as fault:
            written.write(_pages_here(fault, query))
    except LifebusError as fault:
        if fault.code != "row_damaged":
            raise
        further = "`lifebus receipts export --rescue` goes past what is damaged"
        written.damage = [f"the export is not whole: {fault.detail}", further]
    return written.end()


class Start:
    """Where an export begins: after a position, 0 being the start, and of which history, where that was said."""

    def __init__(self, text: str | None) -> None:
        found = parse_start("start" if text is None else text)
        self.epoch = "" if isinstance(found, str | int) else found.epoch
        self.position = 0 if isinstance(found, str) else found if isinstance(found, int) else found.position

    def check(self, page: ReceiptPage) -> None:
        """Check the first page; say what is not kept any more.

        Raises:
            UsageError: the ledger has another history.
        """
        if self.epoch not in {"", page.epoch}:
            what = f"--from: the ledger was restored or made anew since; it is {page.epoch} now, and not {self.epoch}"
            raise UsageError(f"{what}: export it from the start")
        if 0 < self.position < page.floor:
            say(f"receipts {self.position + 1} to {page.floor} are not kept any more; they are missing", color="yellow")


class Export:
    """What an export has written; `damage` says what it could not, and what to do."""

    def __init__(self, form: Format, start: Start, keep: Keep, *, header: bool = True) -> None:
        self.count = 0
        self.damage: list[str] = []
        self._form, self._start, self._keep, self._header = form, start, keep, header
        self._next: str | None = None
        if form == "parquet":
            from lifebus.cli.read.receipt_columns import check_parquet  # noqa: PLC0415

            check_parquet(sys.stdout.buffer)

    async def write_all(self, bus: "Bus", query: "Backfill") -> None:
        """Write what a broker has, page by page.

        Raises:
            LifebusError: it does not answer, or a receipt is damaged.
        """
        import anyio.from_thread  # noqa: PLC0415
        import anyio.to_thread  # noqa: PLC0415

        pages = self._chosen_async(pages_after(bus, query, query.after))
        if self._form != "parquet":
            async for page in pages:
                self._put(page)
            return

        async def following() -> ReceiptPage | None:
            return await anext(pages, None)

        # The writer takes pages as it goes: it has a thread of its own, and the pages come from here.
        work = self._parquet(iter(lambda: anyio.from_thread.run(following), None))
        await anyio.to_thread.run_sync(work)

    def write(self, pages: Iterator[ReceiptPage]) -> None:
        """Write what a file has, page by page.

        Raises:
            LifebusError: it cannot be read, or a receipt is damaged.
        """
        chosen = (self._choose(page) for page in pages)
        if self._form == "parquet":
            self._parquet(chosen)()
            return
        for page in chosen:
            self._put(page)

    def end(self) -> ExitCode:
        """Say how much there was and how to go on, and return the exit code."""
        # Before the count: a pipe that was closed must be noticed first.
        sys.stdout.flush()
        say(f"{self.count} receipts" + (f"; go on with --from {self._next}" if self._next else ""))
        if not self.damage:
            return ExitCode.OK
        say_lines(self.damage)
        return ExitCode.NEGATIVE

    async def _chosen_async(self, pages: AsyncIterator[ReceiptPage]) -> AsyncIterator[ReceiptPage]:
        async for page in pages:
            yield self._choose(page)

    def _choose(self, page: ReceiptPage) -> ReceiptPage:
        """Return what is meant of a page, and count it."""
        if self._next is None:
            self._start.check(page)
        chosen = tuple(one for one in page.rows if self._keep(one.receipt))
        self.count += len(chosen)
        self._next = f"{page.epoch}:{page.next}"
        return ReceiptPage(page.epoch, chosen, page.next, page.floor)

    def _put(self, page: ReceiptPage) -> None:
        if self._form == "jsonl":
            for one in page.rows:
                put_bytes(one.receipt)
        elif self._form == "cloudevents":
            _put_events(page)
        else:
            self._put_table(page)

    def _put_table(self, page: ReceiptPage) -> None:
        from lifebus.cli.read.receipt_columns import COLUMNS, csv_text, rows_of  # noqa: PLC0415

        if self._header:
            sys.stdout.buffer.write(csv_text([COLUMNS]))
            self._header = False
        sys.stdout.buffer.write(csv_text(rows_of(page)))

    def _parquet(self, pages: Iterator[ReceiptPage]) -> Callable[[], None]:
        from lifebus.cli.read.receipt_columns import write_parquet  # noqa: PLC0415

        return lambda: write_parquet(pages, sys.stdout.buffer)


def _put_events(page: ReceiptPage) -> None:
    import msgspec  # noqa: PLC0415

    from lifebus.cli.relays.cloudevent_format import event_of  # noqa: PLC0415

    for one in page.rows:
        put_bytes(msgspec.json.encode(event_of(one.receipt, page.epoch, one.position)))


def _rescue(query: "Backfill", keep: Keep) -> ExitCode:
    """Write what the file holds that is sound, and a line for each damaged range between."""
    import msgspec  # noqa: PLC0415

    from lifebus_admin.inspection import DamagedRange, rescued_receipts  # noqa: PLC0415
    from lifebus_admin.ledger_files.files import ledger_file  # noqa: PLC0415

    written, damaged = Export("jsonl", Start(None), keep), 0
    for one in rescued_receipts(ledger_file(present_settings()), query):
        if isinstance(one, DamagedRange):
            put_bytes(msgspec.json.encode({"damaged": one}, order="sorted"))
            damaged += one.through - one.position + 1
        elif keep(one):
            put_bytes(one)
            written.count += 1
    if damaged:
        what = f"{damaged} receipts are damaged or missing; the export names them in a line of its own"
        written.damage = [what, "`lifebus ledger verify` lists everything that is wrong"]
    return written.end()


def _pages_here(fault: TransportError, query: "Backfill") -> Iterator[ReceiptPage]:
    from lifebus_admin.inspection import pages_of_file  # noqa: PLC0415

    pages = pages_of_file(_file_instead(fault), query)
    return (ReceiptPage(page.epoch, page.stored, page.next, page.floor) for page in pages)


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
