"""The tables of a ledger file, format 3 (docs/ledger.md, "The file")."""

from typing import Final

TABLES: Final = {
    "meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value, checksum INTEGER NOT NULL) WITHOUT ROWID",
    "streams": """CREATE TABLE streams (
  stream INTEGER PRIMARY KEY, adapter_id TEXT NOT NULL, harness_session_id TEXT NOT NULL,
  first_position INTEGER NOT NULL, started_at_epoch_s INTEGER NOT NULL, checksum INTEGER NOT NULL,
  UNIQUE (adapter_id, harness_session_id))""",
    "rows": """CREATE TABLE rows (
  position INTEGER PRIMARY KEY, stream INTEGER NOT NULL, previous INTEGER NOT NULL, sequence INTEGER,
  at_epoch_s INTEGER NOT NULL, event TEXT NOT NULL, status TEXT NOT NULL,
  ended INTEGER NOT NULL, open_frames TEXT, harness_sequence INTEGER,
  link BLOB NOT NULL, receipt BLOB NOT NULL)""",
    "keys": "CREATE TABLE keys (key TEXT PRIMARY KEY, digest BLOB NOT NULL, position INTEGER NOT NULL) WITHOUT ROWID",
    "tips": "CREATE TABLE tips (stream INTEGER PRIMARY KEY, position INTEGER NOT NULL)",
    "bases": """CREATE TABLE bases (
  stream INTEGER PRIMARY KEY, position INTEGER NOT NULL, sequence INTEGER,
  at_epoch_s INTEGER NOT NULL, event TEXT NOT NULL, status TEXT NOT NULL,
  ended INTEGER NOT NULL, open_frames TEXT, harness_sequence INTEGER, link BLOB NOT NULL,
  checksum INTEGER NOT NULL)""",
    "marks": "CREATE TABLE marks (stream INTEGER, position INTEGER, PRIMARY KEY (stream, position)) WITHOUT ROWID",
    "seconds": """CREATE TABLE seconds (
  second INTEGER PRIMARY KEY, position INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    "intake": """CREATE VIEW intake AS SELECT position, stream, previous, sequence, at_epoch_s, event, status,
  ended, open_frames, harness_sequence, link, receipt, '' AS key, x'' AS digest FROM rows""",
    "take": """CREATE TRIGGER take INSTEAD OF INSERT ON intake WHEN NEW.position IS NOT NULL BEGIN
  INSERT INTO rows VALUES (NEW.position, NEW.stream, NEW.previous, NEW.sequence, NEW.at_epoch_s, NEW.event,
    NEW.status, NEW.ended, NEW.open_frames, NEW.harness_sequence, NEW.link, NEW.receipt);
  INSERT INTO keys SELECT NEW.key, NEW.digest, NEW.position WHERE NEW.key IS NOT NULL;
  INSERT INTO marks SELECT NEW.stream, NEW.position WHERE NEW.sequence % 64 = 0;
END""",
    "base": "CREATE TABLE base (position INTEGER PRIMARY KEY, body BLOB NOT NULL, sha256 BLOB NOT NULL)",
    "tombstones": """CREATE TABLE tombstones (
  key BLOB PRIMARY KEY, digest BLOB NOT NULL, pruned_at_epoch_s INTEGER NOT NULL, checksum INTEGER NOT NULL)
  WITHOUT ROWID""",
    "note_streams": """CREATE TABLE note_streams (
  id INTEGER PRIMARY KEY, stream TEXT NOT NULL UNIQUE,
  head INTEGER NOT NULL, floor INTEGER NOT NULL, bytes INTEGER NOT NULL,
  link BLOB NOT NULL, floor_link BLOB NOT NULL, checksum INTEGER NOT NULL)""",
    "notes": """CREATE TABLE notes (
  id INTEGER NOT NULL, number INTEGER NOT NULL, at_epoch_s INTEGER NOT NULL, body BLOB NOT NULL, link BLOB NOT NULL)""",
    "notes_by_number": "CREATE UNIQUE INDEX notes_by_number ON notes (id, number)",
}
"""What the file is made of, in the order of making.

- rows: one receipt each; `previous` leads to the stream's receipt before it, which costs no index (an index by session
  would touch as many pages a commit as there are sessions in it); ended, open_frames and harness_sequence are the fold
  over the session up to this row.
- keys: idempotency key -> digest with its guard (`checksums.guarded`) and position; of a receipt at or below the floor
  nothing else is left.
- tips: stream -> its newest row up to meta.pointed; newer rows speak for themselves.
- bases: the head of a stream as of its newest pruned row.
- marks: every 64th receipt of a session.
- seconds: second -> the first position whose receipt is of it or later; every row before it is earlier.
- intake: one statement stores rows, keys and marks: one transaction in one call, the interpreter's lock is given up
  once a commit and not once a row.
- base: one row once something was pruned: the dump of the stores after meta.floor, and its SHA-256.
- tombstones: the first 16 bytes of a key's SHA-256 -> the first 8 bytes of its digest, once its receipt is gone.
- notes: the journal, in the order of writing, each linked to the one before it in its stream; note_streams holds the
  head, floor and bytes of each stream and the links at head and floor.
"""

CHECKED: Final = {
    "meta": "key, value",
    "streams": "stream, adapter_id, harness_session_id, first_position, started_at_epoch_s",
    "bases": "stream, position, sequence, at_epoch_s, event, status, ended, open_frames, harness_sequence, link",
    "seconds": "second, position",
    "tombstones": "key, digest, pruned_at_epoch_s",
    "note_streams": "id, stream, head, floor, bytes, link, floor_link",
}
"""The tables whose rows carry a checksum, and the columns that it is over: in SQL, ``checksum(…)`` of them."""
