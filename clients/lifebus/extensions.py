"""What authors of extensions import: handlers are told events and may ask for actions (docs/extensions.md).

from lifebus.extensions import Event, Tools, TurnCompleted, on

@on("turn.completed")
async def review(event: Event[TurnCompleted], tools: Tools) -> object:
    return await tools.enqueue_job("command", {...}, project_id=event.payload.context.project_id)
"""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Generic, Literal, Protocol, TypeVar

from msgspec import UNSET, Struct, UnsetType

from lifebus_contract import Receipt
from lifebus_contract.extensions import (
    ActionRequest,
    ActionStatus,
    FileChangeApprovalRequested,
    SuggestRequestRequested,
    TurnCompleted,
)
from lifebus_contract.jobs import Dedupe, Enqueued, EnqueueStatus, JobEvent, JobPriority, NewJob

__all__ = [
    "ActionRequest",
    "ActionStatus",
    "Dedupe",
    "EnqueueStatus",
    "Enqueued",
    "Event",
    "FileChangeApprovalRequested",
    "JobEvent",
    "JobPriority",
    "NewJob",
    "Receipt",
    "RegistrationFault",
    "Signal",
    "SuggestRequestRequested",
    "ToolRefused",
    "Tools",
    "TurnCompleted",
    "on",
    "request_action",
]

P = TypeVar("P")
H = TypeVar("H", bound=Callable[..., Awaitable[object]])


class RegistrationFault(Exception):
    """A handler cannot be registered as it is asked for; the text says why."""


class ToolRefused(Exception):
    """A tool did not do what was asked of it; `code` says why in one word."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Event(Struct, Generic[P], frozen=True, kw_only=True, rename="camel"):
    """What a handler is told.  `payload` is of the type that the handler's annotation names, else as plain as JSON.

    `emitted_at` is a time such as ``2026-11-22T04:14:02.123Z``; `correlation_id` says what the event was made from.
    """

    type: str
    payload: P
    emitted_at: str
    correlation_id: str | None = None


class SignalPlace(Struct, frozen=True, kw_only=True, rename="camel"):
    """Which thread and turn a signal is about."""

    thread_id: str | None = None
    turn_id: str | None = None


class SignalThread(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is known of a thread."""

    id: str
    title: str | None = None
    project_id: str | None = None


class Signal(Struct, frozen=True, kw_only=True, rename="camel"):
    """The payload of an event ``app_server.…``: a message of an app-server as it is (docs/signals.md)."""

    source: Literal["app_server"] = "app_server"
    signal_type: Literal["notification", "request"]
    event_type: str
    method: str
    received_at: str
    context: SignalPlace
    params: Any = None
    session: SignalThread | None = None
    request_id: int | str | UnsetType = UNSET
    params_bytes: int | UnsetType = UNSET


class Log(Protocol):
    """Writes into the broker's log, in the extension's name."""

    def debug(self, message: str, **fields: Any) -> None:
        """Write what only whoever looks for a fault wants to see."""
        ...

    def info(self, message: str, **fields: Any) -> None:
        """Write what happened."""
        ...

    def warning(self, message: str, **fields: Any) -> None:
        """Write what somebody should know."""
        ...

    def error(self, message: str, **fields: Any) -> None:
        """Write what failed."""
        ...


class Tools(Protocol):
    """What a handler may use until it has settled; afterwards everything but `log` raises `ToolRefused`."""

    @property
    def log(self) -> Log:
        """The broker's log."""
        ...

    async def enqueue_job(  # noqa: PLR0913
        self,
        job_type: str,
        payload: Mapping[str, Any],
        *,
        project_id: str,
        source_session_id: str | None = None,
        priority: JobPriority | str | None = None,
        dedupe: Dedupe | str | None = None,
        dedupe_key: str | None = None,
        job_id: str | None = None,
    ) -> Enqueued:
        """Queue a job, and return it, or the one that is the same (docs/queue.md); needs ``queue.enqueue``.

        Raises:
            ToolRefused: it was refused.
        """
        ...

    async def session_settings(self, session_id: str) -> dict[str, Any]:
        """Return the settings of a session.

        Raises:
            ToolRefused: there is no such session, or this broker knows of no settings.
        """
        ...

    async def session_setting(self, session_id: str, key: str, default: Any = None) -> Any:
        """Return one setting of a session.

        Raises:
            ToolRefused: as `session_settings`.
        """
        ...


class RegisteredHandler(Struct, frozen=True):
    """A handler and what it was registered for."""

    event_type: str
    handler: Callable[..., Awaitable[object]]
    priority: int | None
    timeout_ms: int | None


registered: ContextVar[list[RegisteredHandler] | None] = ContextVar("registered", default=None)
"""Where `on` writes while a module of an extension is imported."""


def on(event_type: str, *, priority: int | None = None, timeout: float | None = None) -> Callable[[H], H]:
    """Return what registers a handler for an event of exactly this name.

    Handlers are called by `priority`, the smallest first (100 where none is given), then by the names of their
    extensions.  `timeout` is in seconds; without it the broker's setting counts.  Outside of a broker nothing happens,
    so that a test may import the module.

    Raises:
        RegistrationFault: the name is blank, or a number is none.
    """
    name = event_type.strip() if isinstance(event_type, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
    if not name or len(name) > 256 or not name.isprintable():  # noqa: PLR2004  as long as an event's name may be
        raise RegistrationFault(f"{event_type!r:.64} is no name of an event")
    if priority is not None and (isinstance(priority, bool) or not isinstance(priority, int)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RegistrationFault(f"the priority {priority!r:.64} is no whole number")
    if timeout is not None and not 0 < timeout <= 86_400:  # noqa: PLR2004  a day
        raise RegistrationFault(f"the timeout {timeout!r:.64} is no number of seconds up to a day")

    def register(handler: H) -> H:
        found = registered.get()
        if found is not None:
            timeout_ms = None if timeout is None else max(1, int(timeout * 1000))
            found.append(RegisteredHandler(name, handler, priority, timeout_ms))
        return handler

    return register


def request_action(
    action_type: str,
    payload: Mapping[str, Any],
    *,
    request_id: str | None = None,
    idempotency_key: str | None = None,
) -> ActionRequest:
    """Return a request for an action, for a handler to return."""
    return ActionRequest(
        action_type=action_type, payload=dict(payload), request_id=request_id, idempotency_key=idempotency_key
    )
