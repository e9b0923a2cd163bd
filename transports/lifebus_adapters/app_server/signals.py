"""The envelope that every signal has (docs/app-server.md, "Signals").  Pure."""

from datetime import UTC, datetime
from typing import Final, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from lifebus_adapters.app_server.messages import ABSENT, RpcNotification, RpcRequest
from lifebus_adapters.app_server.naming import event_type
from lifebus_adapters.app_server.threads import Thread

MAX_PARAMS_BYTES: Final = 65_536
"""Largest params that a signal carries, in bytes; of larger ones it has the size alone."""

_DAY_S: Final = 86_400
_LAST_MS: Final = 253_402_300_799_999


class SignalContext(Struct, frozen=True, rename="camel"):
    """Which thread and turn a signal is about."""

    thread_id: str | None
    turn_id: str | None


class SignalSession(Struct, frozen=True, rename="camel"):
    """What is known of the thread; `title` is its name, None while it has none."""

    id: str
    title: str | None
    project_id: str | None


class SignalEnvelope(Struct, frozen=True, kw_only=True, rename="camel"):
    """One signal.  `params` is the original JSON, null where there was none or it was too large.

    `request_id` stands in requests only, `params_bytes` where the params were left out.
    """

    source: Literal["app_server"] = "app_server"
    signal_type: Literal["notification", "request"]
    event_type: str
    method: str
    received_at: str
    context: SignalContext
    params: Raw
    session: SignalSession | None
    request_id: int | str | UnsetType = UNSET
    params_bytes: int | UnsetType = UNSET


def signal_of(
    message: RpcRequest | RpcNotification, thread: Thread | None, turn: str | None, at_ms: int
) -> SignalEnvelope:
    """Return the signal for a message of the server that came at a time, in milliseconds since 1970."""
    is_request = isinstance(message, RpcRequest)
    size = len(message.params)
    fits = size <= MAX_PARAMS_BYTES
    return SignalEnvelope(
        signal_type="request" if is_request else "notification",
        event_type=event_type(message.method, request=is_request),
        method=message.method,
        received_at=iso_time(at_ms),
        context=SignalContext(None if thread is None else thread.id, turn),
        # As raw JSON, so that numbers and keys stay exactly as the server wrote them.
        params=message.params if fits else ABSENT,
        session=None if thread is None else SignalSession(thread.id, thread.title, thread.project_id),
        request_id=message.id if isinstance(message, RpcRequest) else UNSET,
        params_bytes=UNSET if fits else size,
    )


def iso_time(at_ms: int) -> str:
    """Return a time as ``2026-11-22T04:14:02.123Z``; the years 1970 to 9999 are its bounds."""
    # `datetime` refuses years beyond these; a bad clock must not cost the signal.
    seconds, ms = divmod(min(max(0, at_ms), _LAST_MS), 1_000)
    time = datetime.fromtimestamp(seconds, UTC).replace(microsecond=ms * 1_000, tzinfo=None)
    return time.isoformat(timespec="milliseconds") + "Z"
