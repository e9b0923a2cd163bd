"""Values that users type: sessions, positions, times, durations, capabilities; and flags that commands share."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from datetime import time as dt_time
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from lifebus.cli.exit_codes import UsageError
from lifebus.cli.terminal import say
from lifebus.cli.wording.durations import duration_seconds
from lifebus.cli.wording.nearest import nearest_words
from lifebus_contract import (
    CAPABILITIES,
    CapabilityRequest,
    InvalidRequest,
    RequirementLevel,
    SupportState,
)

_SPELLED: Final = re.compile(
    r"(?P<count>\d{1,9}) ?(?:(?P<s>s|secs?|seconds?)|(?P<m>m|mins?|minutes?)|(?P<h>h|hrs?|hours?)|(?P<d>d|days?)"
    r"|(?P<w>w|wks?|weeks?))(?![a-z]) ?"
)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LISTED: Final = 16
"""Most words that a refusal lists."""

_DAYS: Final = {"today": 0, "yesterday": 1}
_CLOCK: Final = re.compile(r"^\d{1,2}:\d{2}(:\d{2})?$")


def parse_choice(what: str, text: str, known: list[str]) -> str:
    """Return the text if it is one of the known words.

    Raises:
        UsageError: it is not; the text suggests the nearest, or lists them all.
    """
    if text in known:
        return text
    raise UsageError(unknown_word(what, text, known))


def unknown_word(what: str, text: str, known: Sequence[str]) -> str:
    """Return the refusal of a word that is none of the known ones: the nearest, or all where none is near."""
    # One suggestion for a slip of the finger; the whole list for a guess.
    near = nearest_words(text, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {_listed(known)}"
    return f"{what}: there is no `{text[:64]}`; {hint}"


def _listed(known: Sequence[str]) -> str:
    """Return a list of words; of a long one its beginning, because nobody reads eighty."""
    shown, rest = known[:_LISTED], len(known) - _LISTED
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def require_name(flag: str, text: str) -> str:
    """Return the name that a flag gives.

    Raises:
        UsageError: it is empty.
    """
    if not text:
        raise UsageError(f"{flag}: an empty name is none")
    return text


def parse_adapter(text: str) -> str:
    """Return the adapter id that the text is or stands for; the user is told what an alias stands for."""
    from lifebus_transports.adapter_names import adapter_id_of  # noqa: PLC0415

    adapter_id = adapter_id_of(text)
    if adapter_id != text:
        say(f"{text[:64]} is the adapter {adapter_id}", color="dim")
    return adapter_id


def parse_session(text: str) -> tuple[str, str]:
    """Return adapter id and session id of ``ADAPTER/SESSION``; the session id may hold slashes.

    Raises:
        UsageError: one half is missing.
    """
    # The first slash divides: adapter ids have none, session ids may.
    adapter, _, session = text.partition("/")
    if not adapter or not session:
        raise UsageError(f"`{text[:64]}` is not ADAPTER/SESSION, e.g. codex/0000000b-b50b")
    return parse_adapter(adapter), session


def parse_seconds(text: str, flag: str = "--timeout") -> float:
    """Return the seconds of the duration that a flag gives: ``500ms``, ``5s``, ``10m``, ``2h``, ``7d``, ``1w``.

    Raises:
        UsageError: another form.
    """
    seconds = duration_seconds(text)
    if seconds is None:
        raise UsageError(f"{flag}: `{text[:64]}` is not a duration; write 500ms, 5s, 10m, 2h, 7d or 1w")
    return seconds


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """How to reach the broker, and in which form to answer."""

    json: bool = False
    "Answer in JSON."
    runtime_dir: Annotated[Path | None, Parameter(env_var="LIFEBUS_RUNTIME_DIR")] = None
    "The directory with the broker's sockets."
    timeout: str = "5s"
    "How long to wait for the broker; the default is 5s."

    def __post_init__(self) -> None:
        # At once: a command that turns out to ask no broker must not take any word for a time.
        parse_seconds(self.timeout)

    @property
    def seconds(self) -> float:
        """The timeout in seconds."""
        return parse_seconds(self.timeout)


DEFAULT_CONNECTION: Final = ConnectionOptions()
"""Nothing was asked for."""


def parse_moment(text: str, now: float | None = None, *, flag: str = "--since") -> datetime:
    """Return a moment (docs/command-line.md, "Times"); what says no time zone is local time.

    Raises:
        UsageError: another form.
    """
    at = datetime.fromtimestamp(time.time() if now is None else now, UTC).astimezone()
    try:
        return _moment(" ".join(text.lower().split()), at)
    except (ValueError, OverflowError, OSError):
        hint = "write 10m ago, yesterday, 12:00, 2026-11-21, 2026-11-21T20:00:00Z or seconds since 1970"
        raise UsageError(f"{flag}: `{text[:64]}` is not a time; {hint}") from None


def _moment(text: str, now: datetime) -> datetime:
    """Return the moment that a text means, seen from now, which is local time.

    Raises:
        ValueError, OverflowError: it means none.
    """
    if text == "now":
        return now
    if (ago := _seconds_ago(text.removesuffix(" ago"))) is not None:
        return datetime.fromtimestamp(now.timestamp() - ago, UTC)
    day, _, clock = text.partition(" ")
    if day in _DAYS:
        at = dt_time.fromisoformat(clock) if clock else dt_time()
        return datetime.combine(now.date() - timedelta(days=_DAYS[day]), at).astimezone()
    if _CLOCK.match(text):
        today = datetime.combine(now.date(), dt_time.fromisoformat(text)).astimezone()
        # A time of day that is still to come was meant as yesterday's: nothing was recorded later.
        return today if today <= now else datetime.combine(now.date() - timedelta(days=1), today.time()).astimezone()
    # Seconds first: `fromisoformat` would read eight digits as a date.
    if text.isascii() and text.isdigit():
        return datetime.fromtimestamp(int(text), UTC)
    return datetime.fromisoformat(text.upper()).astimezone()


def _seconds_ago(text: str) -> float | None:
    """Return the seconds of a duration, also in words or parts: `10m`, `2 hours`, `1h 30min`; None if it is none."""
    if (seconds := duration_seconds(text)) is not None:
        return seconds
    parts = list(_SPELLED.finditer(text))
    if not parts or "".join(one[0] for one in parts) != text:
        return None
    return float(sum(int(one["count"]) * _SECONDS[one.lastgroup or "s"] for one in parts))


def parse_capability(level: RequirementLevel, text: str, *, accept_partial: bool) -> CapabilityRequest:
    """Return the requirement that ``CAPABILITY`` or ``CAPABILITY=SUPPORT`` expresses.

    Raises:
        UsageError: no such capability or support.
    """
    name, _, support = text.partition("=")
    flag = f"--{_FLAGS[level]}"
    capability = parse_choice(flag, name, sorted(CAPABILITIES))
    # A requirement of nothing would be met by everything.
    if support == SupportState.UNAVAILABLE:
        raise UsageError(f"{flag}: `{text[:64]}`: `unavailable` cannot be asked for")
    states = [state.value for state in SupportState if state is not SupportState.UNAVAILABLE]
    wanted = parse_choice(f"{flag} {name}", support or "synthesized", states)
    try:
        return CapabilityRequest(
            capability=capability, level=level, support=SupportState(wanted), accept_partial=accept_partial
        )
    except ValueError as fault:
        raise InvalidRequest(str(fault)) from None


_FLAGS: Final = {
    RequirementLevel.REQUIRED: "require",
    RequirementLevel.PREFERRED: "prefer",
    RequirementLevel.OPTIONAL: "want",
}
