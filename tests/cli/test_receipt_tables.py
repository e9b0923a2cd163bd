"""Exports as CSV and Parquet, read by programs that are not lifebus and compared with the ledger's own file."""

import csv
import io
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import lifebus.blocking
from lifebus.cli.read import receipt_columns
from lifebus.cli.read.receipt_columns import COLUMNS
from support.command_line import Ran, Shell, broker_up
from support.patience import PATIENCE_S
from support.running import short_directory

JSON_COLUMNS = ("telemetry_summary", "payload_receipts", "capability_degradations", "warnings")
SESSIONS = 3
TURNS = 40
Row = tuple[Any, ...]
Read = Callable[[bytes, Path], list[Row]]


def of_ledger(shell: Shell, where: str = "1") -> list[Row]:
    """Return what the ledger's file has, read by SQLite and JSON alone."""
    with closing(sqlite3.connect(shell.directory / "state/ledger.db")) as ledger:
        ((epoch,),) = ledger.execute("SELECT value FROM meta WHERE key = 'epoch'")
        found = ledger.execute(f"SELECT position, receipt FROM rows WHERE {where} ORDER BY position").fetchall()
    bodies = [(position, json.loads(body)) for position, body in found]
    # The broker checks the order of the columns with this: nothing here comes from the product but their names.
    return [
        (epoch, position, *(body[name] for name in COLUMNS if name not in {"epoch", "position"}))
        for position, body in bodies
    ]


def parsed(row: Row) -> Row:
    """Return a row with its columns of JSON read."""
    return tuple(json.loads(cell) if name in JSON_COLUMNS else cell for name, cell in zip(COLUMNS, row, strict=True))


def read_csv(data: bytes, _: Path) -> list[Row]:
    """Return the rows of a CSV file; nothing stands for null, and three columns are numbers."""
    head, *rows = csv.reader(io.StringIO(data.decode(), newline=""))
    assert tuple(head) == COLUMNS
    numbers = {"position", "sequence", "at_epoch_s"}
    return [
        parsed(
            tuple(
                None if cell == "" else int(cell) if name in numbers else cell
                for name, cell in zip(COLUMNS, row, strict=True)
            )
        )
        for row in rows
    ]


DUCKDB = """
import json, sys, duckdb
found = duckdb.connect().execute("SELECT * FROM read_parquet(?)", sys.argv[1:])
print(json.dumps([[column[0] for column in found.description], *found.fetchall()]))
"""


def read_parquet(data: bytes, folder: Path) -> list[Row]:
    """Return the rows of a Parquet file, read by DuckDB, in a process of its own: it leaves a lot to clean up."""
    file = folder / "receipts.parquet"
    file.write_bytes(data)
    ran = subprocess.run([sys.executable, "-c", DUCKDB, str(file)], capture_output=True, check=True)
    head, *rows = json.loads(ran.stdout)
    assert tuple(head) == COLUMNS
    return [parsed(tuple(row)) for row in rows]


READERS: dict[str, Read] = {"csv": read_csv, "parquet": read_parquet}


def exported(shell: Shell, form: str, *words: str) -> tuple[bytes, Ran]:
    """Return what an export writes, by a process of its own, and the end of it."""
    command = ("receipts", "export", "--format", form, *words)
    with shell.started(*command) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    return out, Ran(process.wait(), "", err.decode())


def fill(directory: Path) -> None:
    """Have a broker record some hundred receipts: with payloads, failures, and words that CSV has to quote."""
    with lifebus.blocking.connect("filler", runtime_dir=directory) as bus:
        for number in range(SESSIONS):
            session = f's "{number}", ü'
            bus.emit(lifebus.make_request("session.started", "codex", session=session))
            for turn in range(TURNS):
                request = lifebus.make_request(
                    "frame.opened",
                    "codex",
                    session=session,
                    frame=lifebus.FrameContext(frame_id=f"f{turn}", frame_class=lifebus.FrameClass.TOP_LEVEL),
                )
                bus.emit(request)
            bus.emit(lifebus.make_request("session.ended", "codex", session=session))


@pytest.fixture(scope="module")
def full() -> Iterator[Shell]:
    """A shell beside a broker with some hundred receipts, one of which failed."""
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            fill(directory / "run")
            shell.call("emit", "session.started", "--adapter", "codex", "--require", "renewal.reset.native")
            note = directory / "note"
            note.write_text('PRIVATE, "and" more\n')
            placed = ("--payload", str(note), "--placement", "pre_prompt_frame")
            shell.call("emit", "frame.opening", "--adapter", "codex", "--session", "p", "--frame", "f", *placed)
            yield shell


@pytest.mark.parametrize("form", READERS)
def test_another_reader_finds_every_receipt_of_the_ledger(full: Shell, form: str, tmp_path: Path) -> None:
    out, ran = exported(full, form)
    expected = of_ledger(full)
    assert READERS[form](out, tmp_path) == expected
    assert (ran.code, len(expected) > SESSIONS * TURNS, b"PRIVATE" in out) == (0, True, False)
    epoch, position = expected[-1][:2]
    assert ran.err == f"{len(expected)} receipts; go on with --from {epoch}:{position}\n"


@pytest.mark.parametrize("form", READERS)
def test_selections_are_those_of_every_export(full: Shell, form: str, tmp_path: Path) -> None:
    out, _ = exported(full, form, "--event", "frame.opened", "--status", "failed")
    assert READERS[form](out, tmp_path) == []
    out, _ = exported(full, form, "--event", "session.ended", "--event", "session.started")
    found = READERS[form](out, tmp_path)
    wanted = {"session.ended", "session.started"}
    assert found == [row for row in of_ledger(full) if row[COLUMNS.index("event")] in wanted]


def test_an_export_goes_on_where_the_last_one_ended(full: Shell, tmp_path: Path) -> None:
    first, ran = exported(full, "csv")
    place = ran.err.split()[-1]
    assert exported(full, "csv", "--from", place)[0] == first.partition(b"\n")[0] + b"\n"
    assert full.call("emit", "session.started", "--adapter", "codex", "--session", "later").code == 0
    second, ran = exported(full, "csv", "--from", place, "--no-header")
    assert (ran.code, second.count(b"\n")) == (0, 1)
    assert read_csv(first + second, tmp_path) == of_ledger(full)
    half = place.rpartition(":")[2]
    out, _ = exported(full, "parquet", "--from", str(int(half) // 2))
    assert read_parquet(out, tmp_path) == of_ledger(full, f"position > {int(half) // 2}")
    other = full.call("receipts", "export", "--from", f"other{place}")
    assert (other.code, "export it from the start" in other.err) == (2, True)


def test_what_cannot_be_asked_for_is_refused(full: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for words, why in (
        (("--format", "csv", "--rescue"), "--rescue"),
        (("--format", "parquet", "--json"), "--json"),
        (("--format", "xml"), "xml"),
        (("--rescue", "--from", "1"), "--from"),
        (("--from", "x"), "POSITION"),
    ):
        ran = full.call("receipts", "export", *words)
        assert (ran.code, why in ran.err, ran.out) == (2, True, "")
    shown = full.on_terminal("receipts", "export", "--format", "parquet")
    assert (shown.code, "nothing for a terminal" in " ".join(shown.out.split())) == (2, True)
    monkeypatch.setitem(sys.modules, "arro3.io", None)
    ran = full.call("receipts", "export", "--format", "parquet")
    assert (ran.code, "pip install 'lifebus[parquet]'" in ran.err) == (2, True)


def test_without_a_broker_the_file_is_read_and_damage_ends_it(tmp_path: Path) -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            fill(directory / "run")
        for form, read in READERS.items():
            out, ran = exported(shell, form)
            assert (ran.code, read(out, tmp_path)) == (0, of_ledger(shell))
        with closing(sqlite3.connect(directory / "state/ledger.db")) as ledger:
            ledger.execute("UPDATE rows SET receipt = replace(receipt, 'codex', 'codey') WHERE position = 50")
            ledger.commit()
        out, ran = exported(shell, "csv")
        assert (ran.code, "--rescue" in ran.err) == (1, True)
        assert read_csv(out, tmp_path) == of_ledger(shell, "position < 50")


def test_what_is_gone_is_said(tmp_path: Path) -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            fill(directory / "run")
        assert shell.call("ledger", "prune", "--through", "20").code == 0
        out, ran = exported(shell, "csv", "--from", "3")
        assert ("are not kept any more" in ran.err, read_csv(out, tmp_path)) == (True, of_ledger(shell))


def test_the_columns_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs/receipt-tables.md").read_text()
    named = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert tuple(named) == COLUMNS
    assert set(receipt_columns.ReceiptColumns.__struct_fields__) == set(lifebus.Receipt.__struct_fields__)
