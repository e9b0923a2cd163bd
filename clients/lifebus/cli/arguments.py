"""Values that users type: sessions, positions, times, durations, capabilities; and flags that commands share."""

import difflib
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from lifebus.cli.exit_codes import UsageError
from lifebus.cli.terminal import say
from lifebus_contract import (
    CAPABILITIES,
    CapabilityRequest,
    InvalidRequest,
    LifecycleEvent,
    ReceiptStatus,
    RequirementLevel,
    SupportState,
)

_DURATION: Final = re.compile(r"^(?P<count>\d{1,9}(?:\.\d{1,6})?)(?P<unit>ms|s|m|h|d)$")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}


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

    @property
    def seconds(self) -> float:
        """The timeout in seconds."""
        return parse_seconds(self.timeout)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReceiptFilter:
    """Which receipts."""

    session: str | None = None
    "Only this session: its short name, e.g. api#3, or ADAPTER/SESSION."
    adapter: str | None = None
    "Only this adapter."
    event: str | None = None
    "Only this event, e.g. frame.opened."
    status: str | None = None
    "Only this status of the receipt itself, e.g. degraded; --failed also finds turns and sessions that failed."
    failed: Annotated[bool, Parameter(negative="")] = False
    "Only receipts of failures: receipts that failed, and the ends of turns, sub-agents and sessions that did."
    payload: str | None = None
    "Only receipts that say what became of this payload: its id, e.g. pay_01K…."
    waiting: Annotated[bool, Parameter(negative="")] = False
    "Only receipts that say that a session waits for a person, or does not any more."

    @property
    def adapter_id(self) -> str | None:
        """The adapter's id."""
        return parse_adapter(self.adapter) if self.adapter is not None else None

    @property
    def session_pair(self) -> tuple[str, str] | None:
        """The session as adapter id and session id."""
        return parse_session(self.session) if self.session is not None else None

    @property
    def lifecycle_event(self) -> LifecycleEvent | None:
        """The event."""
        if self.event is None:
            return None
        return LifecycleEvent(parse_choice("--event", self.event, [event.value for event in LifecycleEvent]))

    @property
    def receipt_status(self) -> ReceiptStatus | None:
        """The status."""
        if self.status is None:
            return None
        return ReceiptStatus(parse_choice("--status", self.status, [status.value for status in ReceiptStatus]))


DEFAULT_CONNECTION: Final = ConnectionOptions()
"""Nothing was asked for."""

ANY_RECEIPT: Final = ReceiptFilter()
"""No filter."""


def parse_choice(what: str, text: str, known: list[str]) -> str:
    """Return the text if it is one of the known words.

    Raises:
        UsageError: it is not; the text suggests the nearest, or lists them all.
    """
    if text in known:
        return text
    # One suggestion for a slip of the finger; the whole list for a guess.
    near = difflib.get_close_matches(text, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    raise UsageError(f"{what}: there is no `{text[:64]}`; {hint}")


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


def parse_seconds(text: str) -> float:
    """Return the seconds of a duration: ``500ms``, ``5s``, ``10m``, ``2h``, ``7d``.

    Raises:
        UsageError: another form.
    """
    found = _DURATION.match(text)
    if not found:
        raise UsageError(f"`{text[:64]}` is not a duration; write 500ms, 5s, 10m, 2h or 7d")
    return float(found["count"]) * _SECONDS[found["unit"]]


def parse_moment(text: str, now: float | None = None, *, flag: str = "--since") -> datetime:
    """Return a moment: a duration before now, an RFC 3339 time, or seconds since 1970.

    A time without an offset is local time.

    Raises:
        UsageError: another form.
    """
    try:
        if _DURATION.match(text):
            return datetime.fromtimestamp((time.time() if now is None else now) - parse_seconds(text), UTC)
        # Seconds first: `fromisoformat` would read eight digits as a date.
        return datetime.fromtimestamp(int(text), UTC) if text.isdigit() else datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        hint = "write 10m, 2026-11-21T20:00:00Z or seconds since 1970"
        raise UsageError(f"{flag}: `{text[:64]}` is not a time; {hint}") from None


def parse_capability(level: RequirementLevel, text: str, *, accept_partial: bool) -> CapabilityRequest:
    """Return the requirement that ``CAPABILITY`` or ``CAPABILITY=SUPPORT`` expresses.

    Raises:
        UsageError: no such capability or support.
    """
    name, _, support = text.partition("=")
    capability = parse_choice(f"--{_FLAGS[level]}", name, sorted(CAPABILITIES))
    wanted = parse_choice("support", support or "synthesized", [state.value for state in SupportState])
    # A requirement of nothing would be met by everything.
    if wanted == SupportState.UNAVAILABLE:
        raise UsageError(f"`{text[:64]}`: `unavailable` cannot be asked for")
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
