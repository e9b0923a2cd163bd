"""What a scrub of a ledger says of itself while it runs (docs/ledger.md, "The scrub").  Pure."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

ROWS: Final = "rows"
"""The first part, and the one in which a scrub can go on where it was."""


class ScrubPlace(Struct, frozen=True):
    """Where a scrub is: the part of the file, the rows up to which it is checked, and the newest row."""

    part: str = ROWS
    position: int = 0
    head: int = 0


Pace = Callable[[ScrubPlace], None]
"""Called before each slice, with no transaction open; waits as long as it likes, and ends the scrub by raising."""
