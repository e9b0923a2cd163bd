"""Forges rows and records of a ledger file and links anew what follows, after docs/ledger.md alone.

Nothing here imports the product: the chain is computed from the sentences of D4 and D6.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw

BEFORE_THE_FIRST = bytes(32)


def streams_of(ledger: Path) -> dict[tuple[str, str | None], list[int]]:
    """Return the positions of each stream, read out of the receipts themselves."""
    found: dict[tuple[str, str | None], list[int]] = {}
    connection: Any = apsw.Connection(str(ledger))
    for position, text in connection.execute("SELECT position, receipt FROM rows ORDER BY position"):
        receipt = json.loads(text)
        found.setdefault((receipt["adapter_id"], receipt["harness_session_id"]), []).append(position)
    connection.close()
    return found


def relink_rows(ledger: Path, stream: list[int], changed: int) -> None:
    """Change the receipt at a position, and link anew every row of its stream, whose positions these are."""
    connection: Any = apsw.Connection(str(ledger))
    link = BEFORE_THE_FIRST
    for position in stream:
        ((text,),) = connection.execute("SELECT receipt FROM rows WHERE position = ?", (position,))
        if position == changed:
            text = text.replace(b'"receipt_id":"lfr_', b'"receipt_id":"lfx_', 1)
        link = sha256(link + text).digest()
        connection.execute("UPDATE rows SET receipt = ?, link = ? WHERE position = ?", (text, link, position))
    connection.close()


def forge_record(ledger: Path, stream: str, number: int, body: Any, *, relink: bool) -> None:
    """Give a record of the journal another body; with `relink` all links after it, and the stream's own, follow."""
    connection: Any = apsw.Connection(str(ledger))
    ((which,),) = connection.execute("SELECT id FROM note_streams WHERE stream = ?", (stream,))
    text = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    connection.execute("UPDATE notes SET body = ? WHERE id = ? AND number = ?", (text, which, number))
    link = BEFORE_THE_FIRST
    statement = "SELECT number, at_epoch_s, body FROM notes WHERE id = ? ORDER BY number"
    rows: list[Any] = connection.execute(statement, (which,)).fetchall()
    for each, second, content in rows if relink else ():
        link = sha256(link + second.to_bytes(8, "big", signed=True) + content).digest()
        connection.execute("UPDATE notes SET link = ? WHERE id = ? AND number = ?", (link, which, each))
        connection.execute("UPDATE note_streams SET link = ? WHERE id = ?", (link, which))
    connection.close()


def record_body(ledger: Path, stream: str, number: int) -> Any:
    """Return the body of a record as plain data."""
    connection: Any = apsw.Connection(str(ledger))
    statement = "SELECT body FROM notes JOIN note_streams USING (id) WHERE stream = ? AND number = ?"
    ((body,),) = connection.execute(statement, (stream, number))
    connection.close()
    return json.loads(body)
