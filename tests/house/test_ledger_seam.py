"""Which ledger there is, only the ledger's own room knows: the others ask for capabilities."""

import re

from support.layering import modules
from support.paths import REPOSITORY

ROOM = "lifebus_broker.ledger"
ADMIN = "lifebus_admin."
"""Commands on ledger files work on SQLite files, and say so."""

KNOWS = re.compile(r"\bbackend\s*[!=]=|isinstance\([^)]*Ledger\)|[\"'](sqlite|memory)[\"']\s*[!=]=")
NAMES_SQLITE = re.compile(r"lifebus_broker\.ledger\.sqlite")

OUTSIDE = {name: path.read_text() for name, path in modules(REPOSITORY) if not name.startswith(ROOM)}


def test_nobody_outside_asks_which_backend_it_is() -> None:
    assert [name for name, source in OUTSIDE.items() if KNOWS.search(source)] == []


def test_only_commands_on_files_name_the_sqlite_ledger() -> None:
    assert [
        name for name, source in OUTSIDE.items() if NAMES_SQLITE.search(source) and not name.startswith(ADMIN)
    ] == []


def test_the_guard_bites() -> None:
    assert KNOWS.search('if settings.ledger.backend != "sqlite":')
    assert KNOWS.search("isinstance(ledger, SqliteLedger)")
