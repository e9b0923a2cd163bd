"""The library's log: Python's `logging`, below the logger "lifebus", which prints nothing until its user says so."""

import logging
from typing import Any, Final

FACTS: Final = "lifebus_facts"
"""The attribute of a log record that holds the facts of its event, for handlers that keep them apart."""

# Without a handler of its own Python would print warnings of the library to its user's stderr.
logging.getLogger("lifebus").addHandler(logging.NullHandler())


class ClientLogger:
    """Logs events: a snake_case name with facts by name, which stand in the message too."""

    def __init__(self, name: str) -> None:
        self._log = logging.getLogger(name)

    def info(self, event: str, **facts: Any) -> None:
        """Log what may be of interest."""
        self._write(logging.INFO, event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        """Log what went wrong and was mended, or may be missed."""
        self._write(logging.WARNING, event, facts)

    def exception(self, event: str, **facts: Any) -> None:
        """Log an exception that is being handled, with its traceback."""
        self._write(logging.ERROR, event, facts, exc_info=True)

    def _write(self, level: int, event: str, facts: dict[str, Any], *, exc_info: bool = False) -> None:
        if not self._log.isEnabledFor(level):
            return
        text = "".join(f" {name}={value!r}" for name, value in facts.items())
        # The caller of `info` and its like: `_write` and they themselves are of no interest.
        self._log.log(level, "%s%s", event, text, exc_info=exc_info, stacklevel=3, extra={FACTS: (event, facts)})
