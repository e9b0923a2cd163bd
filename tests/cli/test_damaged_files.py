"""Commands on a ledger file that somebody or something has changed: no defect, a true exit code, nothing invented.

Every column of every table gets values of every storage class, pages get flipped bits, files end early; by SQL and on
the bytes, while nothing runs.  A command is asked of each case, every command under torture.
"""

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_contract import LifecycleEvent
from support.command_line import Ran, Shell
from support.contract_suites.journal_suite import noted
from support.effort import TORTURE, effort
from support.receipts import append, entry
from support.running import short_directory

PAGE = 4096
KEPT_AFTER = 10
VALUES = {
    "an integer": "7",
    "a large integer": "9223372036854775807",
    "a real number": "3.5",
    "a text": "'x'",
    "no UTF-8": "CAST(x'ff41' AS TEXT)",
    "a blob": "x'00ff'",
    "nothing": "NULL",
}
VERIFY = ("ledger", "verify")
RESCUE = ("receipts", "export", "--rescue")
COMMANDS: tuple[tuple[str, ...], ...] = (
    VERIFY,
    ("ledger", "show"),
    ("receipts", "verify", "--tail", "50"),
    ("receipts", "export"),
    RESCUE,
    ("ledger", "boot"),
    ("ledger", "boot", "--check"),
    ("ledger", "snapshots", "verify"),
    ("ledger", "snapshots", "list"),
    ("ledger", "backup", "{new}"),
    ("ledger", "export", "-"),
    ("ledger", "restore", "{old}"),
    ("ledger", "prune", "--through", "20", "--dry-run"),
    ("ledger", "caches", "verify"),
    ("ledger", "save", "session"),
    ("status",),
)
EVENTS = (LifecycleEvent.SESSION_STARTED, LifecycleEvent.FRAME_OPENED, LifecycleEvent.FRAME_ENDED)


class Ledger:
    """A ledger with something of everything, which each case gets back as it was; `written` are its receipts."""

    def __init__(self, shell: Shell) -> None:
        self.shell, self.state = shell, shell.directory / "state"
        self.path = self.state / "ledger.db"
        self.state.mkdir(mode=0o700)
        asyncio.run(self._fill(0, 30))
        assert shell.call("ledger", "save", "session").code == 0
        assert shell.call("ledger", "prune", "--through", str(KEPT_AFTER)).code == 0
        asyncio.run(self._fill(30, 80))
        assert shell.call("ledger", "save", "campaign").code == 0
        self._sound = shell.directory / "sound"
        shutil.copytree(self.state, self._sound)
        with closing(sqlite3.connect(self.path)) as connection:
            self.written = dict(connection.execute("SELECT position, receipt FROM rows ORDER BY position").fetchall())

    async def _fill(self, first: int, count: int) -> None:
        ledger = await SqliteLedger.open(self.path)
        entries = [
            entry(
                number,
                key=f"k{number}",
                harness_session_id=("s0", "s1", None)[number % 3],
                event=EVENTS[number // 3 % 3],
                telemetry_summary={"frame_id": f"f{number // 9}"},
                at_epoch_s=1_790_000_000 + number,
            )
            for number in range(first, first + count)
        ]
        await append(ledger, entries)
        await noted(ledger.journal, *[("x/a", b"note %d" % number) for number in range(4)])
        await ledger.journal.drop("x/a", 2)
        await ledger.aclose()

    def reset(self) -> None:
        shutil.rmtree(self.state)
        shutil.copytree(self._sound, self.state)
        shutil.rmtree(self.shell.directory / "other", ignore_errors=True)
        (self.shell.directory / "other").mkdir()

    def run(self, command: tuple[str, ...]) -> Ran:
        """Run a command on the file as it is, and check what must be so whatever is wrong with it."""
        other = self.shell.directory / "other"
        if "{old}" in command:
            shutil.copy(self.path, other / "old.db")
        names = {"{old}": str(other / "old.db"), "{new}": str(other / "new.db")}
        ran = self.shell.call(*(names.get(word, word) for word in command))
        assert ran.code != 70, (command, ran.err)
        assert "Traceback" not in ran.err + ran.out
        if command == RESCUE:
            self._check_rescued(ran)
        return ran

    def _check_rescued(self, ran: Ran) -> None:
        """What was rescued is what was written, and everything else is named."""
        named: set[int] = set()
        rescued: set[bytes] = set()
        for text, line in zip(ran.out.splitlines(), ran.lines, strict=True):
            if "damaged" in line:
                named |= set(range(line["damaged"]["position"], min(line["damaged"]["through"], 10_000) + 1))
            else:
                rescued.add(text.encode())
        assert rescued <= set(self.written.values())
        lost = {position for position, receipt in self.written.items() if receipt not in rescued}
        if ran.code in (0, 1):
            assert lost <= named
            assert ran.code == bool(named)

    def columns(self) -> list[tuple[str, str]]:
        with closing(sqlite3.connect(self.path)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            found = [(table, connection.execute(f"PRAGMA table_info({table})").fetchall()) for (table,) in tables]
        return [(table, one[1]) for table, columns in found for one in columns]

    def put(self, table: str, column: str, value: str, which: float) -> bool:
        """Put a value into one row of a table, NULL too; return whether that changed anything."""
        kept = self._definitions("replace(sql, ' NOT NULL', '')")
        try:
            with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
                key = connection.execute(f"PRAGMA table_info({table})").fetchone()[1]
                count = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                place = f"(SELECT {key} FROM {table} ORDER BY 1 LIMIT 1 OFFSET {int(which * count)})"
                where = f"{key} = {place} AND {column} IS NOT {value}"
                return connection.execute(f"UPDATE {table} SET {column} = {value} WHERE {where}").rowcount > 0
        except sqlite3.Error:
            return False  # a key that is there already, or no row id
        finally:
            self._definitions(None, kept)

    def _definitions(self, change: str | None, kept: dict[str, str] | None = None) -> dict[str, str]:
        """Write the tables' definitions by SQL, or put kept ones back; return what they were."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            was = dict(connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall())
            if change is not None:
                connection.execute(f"UPDATE sqlite_schema SET sql = {change} WHERE type = 'table'")
            for name, sql in (kept or {}).items():
                connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, name))
        return was


@pytest.fixture(scope="module")
def ledger() -> Iterator[Ledger]:
    with short_directory() as directory:
        yield Ledger(Shell(directory))


def asked(number: int) -> tuple[tuple[str, ...], ...]:
    """Return the commands of a case: all under torture, else one after the other."""
    return COMMANDS if TORTURE >= 1 else (COMMANDS[number % len(COMMANDS)],)


def test_commands_on_the_sound_ledger_do_what_they_are_for(ledger: Ledger) -> None:
    ledger.reset()
    for command in (
        VERIFY,
        RESCUE,
        ("ledger", "boot", "--check"),
        ("ledger", "backup", "{new}"),
        ("ledger", "export", "-"),
    ):
        assert ledger.run(command).code == 0


def test_no_value_of_any_column_makes_a_command_fail_as_a_defect(ledger: Ledger) -> None:
    ledger.reset()
    chance = random.Random(13)
    cases = [(*place, value) for place in ledger.columns() for value in VALUES.values()]
    chance.shuffle(cases)
    tried = 0
    for number, (table, column, value) in enumerate(cases[: effort(32, len(cases))]):
        ledger.reset()
        if not ledger.put(table, column, value, chance.choice((0.0, 0.5, 0.999))):
            continue
        tried += 1
        for command in asked(number):
            ran = ledger.run(command)
            if command in (VERIFY, ("ledger", "backup", "{new}"), ("ledger", "export", "-")):
                assert ran.code in (1, 74), (table, column, value, command, ran.out)
    assert tried > effort(32, len(cases)) // 2, "most values change something"


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_a_receipt_of_another_storage_class_stops_no_tool(ledger: Ledger, value: str) -> None:
    commands = COMMANDS if TORTURE >= 1 or value == "'x'" else (VERIFY, RESCUE, ("ledger", "boot"))
    ledger.reset()
    assert ledger.put("rows", "receipt", value, 0.5)
    position = KEPT_AFTER + 1 + len(ledger.written) // 2
    for command in commands:
        ran = ledger.run(command)
        if command == VERIFY:
            why = "holds text that is none" if "CAST" in value else "does not hold a receipt"
            found = [line for line in ran.out.splitlines()[1:] if "SQLite: NULL value" not in line]
            assert found == [f"  row {position}: {why}"]
        elif command == RESCUE:
            assert (ran.code, len(ran.lines)) == (1, len(ledger.written))
        elif command[0] != "status" and "--tail" not in command and command[-1] not in ("show", "list"):
            assert (ran.code == 0) <= (command[:2] == ("ledger", "prune")), (command, ran.out)


def test_no_damaged_page_makes_a_command_fail_as_a_defect(ledger: Ledger) -> None:
    ledger.reset()
    sound, chance = ledger.path.read_bytes(), random.Random(7)
    pages = list(range(len(sound) // PAGE)) * effort(1, 8)
    chance.shuffle(pages)
    for number, page in enumerate(pages[: effort(20, len(pages))]):
        ledger.reset()
        content = bytearray(sound)
        start, size = page * PAGE, chance.choice((8, 64, PAGE))
        for _ in range(chance.choice((1, 8, 64))):
            content[start + chance.randrange(size)] ^= 1 << chance.randrange(8)
        ledger.path.write_bytes(content)
        for command in asked(number):
            ledger.run(command)


def test_a_file_that_ends_early_is_never_taken_for_a_whole_one(ledger: Ledger) -> None:
    ledger.reset()
    sound, chance = ledger.path.read_bytes(), random.Random(5)
    sizes = [0, 1, 99, 100, PAGE - 1, PAGE, len(sound) - PAGE, len(sound) - 1]
    sizes += [chance.randrange(len(sound)) for _ in range(effort(4, 100))]
    for number, size in enumerate(sizes):
        ledger.reset()
        ledger.path.write_bytes(sound[:size])
        for command in {*asked(number), *((VERIFY,) if number % 3 else (("ledger", "export", "-"),))}:
            ran = ledger.run(command)
            if command in (VERIFY, ("ledger", "backup", "{new}"), ("ledger", "export", "-")):
                assert ran.code, (size, command, ran.out)
