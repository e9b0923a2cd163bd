"""What a child writes, as lines for a log: each bounded, and without secrets."""

from collections.abc import Callable
from typing import Final

from lifebus_transports.framing.lines import LineFramer, Overlong
from lifebus_transports.processes.redaction import hide_secrets

_MAX_LINE: Final = 4_096


class OutputLines:
    """Takes pieces of output, and calls `on_line` with each whole line."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._framer = LineFramer(_MAX_LINE)
        self._on_line = on_line

    def take(self, data: bytes) -> None:
        """Take a piece as it was read."""
        for line in self._framer.feed(data):
            text = f"[{line.size} bytes]" if isinstance(line, Overlong) else line.decode(errors="replace")
            self._on_line(hide_secrets(text))
