"""The calls to models that a harness's session files show: which files, and what each line says of a call.  Pure.

A response is logged many times: for each block of its content, again when it is complete, and in the file of a session
that goes on from it.  Readers return each of these, with the same key; whoever counts keeps the last one.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from lifebus_adapters.shared.telemetry import Surroundings


class ModelCall(Struct, frozen=True, kw_only=True):
    """One call to a model, as one line shows it.

    `key` is the same wherever the call is logged.  `input_tokens` are all that were sent, those from and for a cache
    included.  `at` is when it was logged, as the file has it (ISO 8601); a copy keeps the time of its original.
    """

    key: str
    model: str | None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    at: str | None = None

    def is_before(self, at_ms: int) -> bool:
        """Whether it was made before a time, in milliseconds since the epoch; one without a time was not."""
        try:
            made = None if self.at is None else datetime.fromisoformat(self.at)
        except ValueError:
            return False
        # A time without a zone says nothing.
        return made is not None and made.tzinfo is not None and made.timestamp() * 1_000 < at_ms


class ModelCallReader(Protocol):
    """A plain state machine over the lines of one file, oldest first."""

    def read(self, record: bytes) -> Sequence[ModelCall]:
        """Return the calls in a line; most lines have none.

        Raises:
            InvalidRequest: the line is not what this harness writes; the reader stays usable.
        """
        ...


class CallFiles(Struct, frozen=True, kw_only=True):
    """Where a harness logs the calls of a session.

    `roots` are the directories; `patterns` the globs below them for a session, whose id is escaped already: files of
    sub-agents first, the session's own last.  `make_reader` returns a reader for one file.
    """

    roots: Callable[[Surroundings], Sequence[str]]
    patterns: Callable[[str], Sequence[str]]
    make_reader: Callable[[], ModelCallReader]
