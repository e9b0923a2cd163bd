"""Logs on stderr: readable on a terminal, one JSON object a line elsewhere; no secrets, no bodies, no floods.

Log lines are not receipts: what must not be lost belongs into the ledger.
"""

import contextlib
import logging
import re
import sys
import time
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Final, Protocol, TypeGuard, cast

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from lifebus_supervisor.configuration.settings import LogSettings

_PRIVATE: Final = re.compile(
    r"authorization|token|secret|passw|cookie|credential|(?:^|_)key$|^(?:body|payload|payloads|stdin|stdout|content|text)$",
    re.IGNORECASE,
)
# Keys that only look private
_PUBLIC: Final = frozenset({"idempotency_key"})
_HIDDEN: Final = "[removed]"
_MAX_TEXT: Final = 2_048
_MAX_DEPTH: Final = 6
_MAX_NAMES: Final = 512


class LogStream(Protocol):
    """Where lines go: a text stream, or what stands for one."""

    def write(self, text: str, /) -> int:
        """Write text."""
        ...

    def flush(self) -> None:
        """Let nothing wait in a buffer."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        ...


def configure(
    settings: LogSettings,
    stream: LogStream | None = None,
    *,
    color: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> "RateLimit":
    """Set structlog up for the process, and return the limiter, which knows what it has dropped.

    `clock` gives seconds and is for the limiter only.
    """
    output: LogStream = stream or sys.stderr
    as_json = settings.format == "json" or (settings.format == "auto" and not output.isatty())
    # First in the chain: a line that is dropped costs nothing of what follows.
    limit = RateLimit(clock)
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    structlog.configure(
        processors=_processors(limit, as_json=as_json, color=color),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *names: _Line(output, *names),
        cache_logger_on_first_use=False,
    )
    return limit


def _processors(limit: "RateLimit", *, as_json: bool, color: bool) -> list[Processor]:
    render: Processor
    if as_json:
        render = structlog.processors.JSONRenderer(serializer=_to_json)
    else:
        render = structlog.dev.ConsoleRenderer(colors=color, exception_formatter=structlog.dev.plain_traceback)
    return [
        limit,
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _add_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        drop_private,
        escape,
        render,
    ]


class RateLimit:
    """Lets at most `burst` lines of one event name through in each window of `window_s` seconds.

    The next line after a window says in `suppressed` how many of which were dropped; `dropped` is the total.
    """

    def __init__(self, clock: Callable[[], float], *, burst: int = 50, window_s: float = 10.0) -> None:
        self.dropped = 0
        self._clock = clock
        self._burst = burst
        self._window_s = window_s
        self._opened = clock()
        self._seen: dict[str, int] = {}
        self._suppressed: dict[str, int] = {}

    def __call__(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        """Pass the line on, or drop it.

        Raises:
            structlog.DropEvent: the event name has used its window up.
        """
        if self._clock() - self._opened >= self._window_s:
            self._open_window(event)
        name = str(event.get("event", ""))[:64]
        # Names may come from a peer: without a bound they would fill the memory.
        if name not in self._seen and len(self._seen) >= _MAX_NAMES:
            name = "others"
        self._seen[name] = self._seen.get(name, 0) + 1
        if self._seen[name] > self._burst:
            self.dropped += 1
            raise structlog.DropEvent
        return event

    def _open_window(self, event: EventDict) -> None:
        """Begin a new window, and have this line report what the last one dropped."""
        suppressed = {name: seen - self._burst for name, seen in self._seen.items() if seen > self._burst}
        if suppressed:
            event["suppressed"] = suppressed
        self._opened = self._clock()
        self._seen.clear()


def drop_private(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Replace the values of keys that may hold secrets or payload bodies, at any depth."""
    return cast("EventDict", _without_private(event, 0))


def escape(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Escape control characters and bound the length of every text, so that no hostile id can forge a line."""
    return cast("EventDict", _escaped(event, 0))


def _without_private(value: Any, depth: int) -> Any:
    if _is_map(value) and depth < _MAX_DEPTH:
        return {
            key: _HIDDEN if _is_private(str(key)) and item is not None else _without_private(item, depth + 1)
            for key, item in value.items()
        }
    if _is_list(value) and depth < _MAX_DEPTH:
        return [_without_private(item, depth + 1) for item in value]
    return value


def _is_map(value: Any) -> TypeGuard[MutableMapping[Any, Any]]:
    return isinstance(value, MutableMapping)


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def _is_private(key: str) -> bool:
    return key not in _PUBLIC and _PRIVATE.search(key) is not None


def _escaped(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth >= _MAX_DEPTH:
        return "[too deep]"
    if _is_map(value):
        return {_printable(str(key)): _trace_or_text(key, item, depth) for key, item in value.items()}
    if _is_list(value):
        return [_escaped(item, depth + 1) for item in value[:64]]
    return _printable(value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value))


def _trace_or_text(key: Any, item: Any, depth: int) -> Any:
    """Escape a value; a traceback keeps its lines."""
    # The end is what says where it failed.
    if key == "exception" and depth == 0 and isinstance(item, str):
        return "\n".join(_printable(line) for line in item[-2 * _MAX_TEXT :].split("\n"))
    return _escaped(item, depth + 1)


def _printable(text: str) -> str:
    # Cut before it is escaped, so that a hostile text costs no more than its part that is shown.
    cut = text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"
    if cut.isprintable():
        return cut
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "surrogatepass").decode("ascii")
        for letter in cut
    )


class _Line:
    """Writes one line a message; a log that has no reader any more does not stop the process."""

    def __init__(self, stream: LogStream, name: str = "lifebus") -> None:
        self.name = name
        self._stream = stream

    def msg(self, message: str) -> None:
        """Write the rendered line."""
        with contextlib.suppress(OSError, ValueError):  # closed, or a full disk
            self._stream.write(message + "\n")
            self._stream.flush()

    debug = info = warning = error = critical = exception = msg


def _add_name(logger: Any, _method: str, event: EventDict) -> EventDict:
    event["logger"] = getattr(logger, "name", "lifebus")
    return event


def _to_json(event: EventDict, **_: Any) -> str:
    first = {key: event.pop(key, None) for key in ("timestamp", "level", "logger", "event")}
    return msgspec.json.encode({**first, **event}).decode()
