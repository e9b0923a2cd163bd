"""What tailing is limited by, and what it reports: updates of a file, and how a tailed file is.  Pure."""

from typing import Literal

from msgspec import Struct

from lifebus_adapters.shared.telemetry import Fact

FileProblem = Literal["missing", "refused", "hung", "unreadable"]
"""Why a file cannot be tailed: it is not there; it is not a plain file of ours; its file system does not answer; or
reading it fails."""


class TailLimits(Struct, frozen=True, kw_only=True):
    """How much tailing may cost.

    `max_files` are tailed for each source, and records of more than `record_bytes` skipped.  One poll reads at most
    `poll_bytes` of a file and waits `read_s` seconds for a source.  Files that changed within `recent_s` seconds are
    discovered; older ones are tailed when a hook names them.
    """

    max_files: int = 4096
    record_bytes: int = 8 * 1024 * 1024
    poll_bytes: int = 4 * 1024 * 1024
    read_s: float = 1.0
    recent_s: int = 1800


class FileUpdate(Struct, frozen=True, kw_only=True):
    """What one poll found in one file: what is new, or a problem that stands.

    `session` is the one that a hook or the file's name gives; the facts name theirs in any case, and a database's is
    always None.  `history` says that the records stood in the file when it was first seen: they prove nothing about now
    (a file that appears while its folder is known has no history).  `grown` counts the bytes read in this poll that
    lie beyond the file's size at the poll before; history has not grown.  Of a database it counts the rows that were
    read.  `skipped` counts the records of this poll that could not be read or are too large, and `unreadable_run` is
    the number of unreadable ones in a row up to now.  `evidence` says in a few words what shows the problem or made the
    last record unreadable; it never quotes the file.
    """

    adapter_id: str
    source_id: str
    path: str
    session: str | None
    facts: tuple[Fact, ...] = ()
    grown: int = 0
    skipped: int = 0
    unreadable_run: int = 0
    history: bool = False
    problem: FileProblem | None = None
    evidence: str = ""


class TailedFile(Struct):
    """How a tailed file is: its size in bytes (a database's with its log), and seconds since it grew.

    `age_s` is None for a file that was never there.  `records` were read since tailing began (rows of a database),
    `skipped` could not be.
    """

    adapter_id: str
    source_id: str
    path: str
    session: str | None
    size: int
    age_s: int | None
    records: int
    skipped: int
    problem: str | None
