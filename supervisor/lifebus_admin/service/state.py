"""What a service manager says of the service."""

from msgspec import Struct


class ServiceState(Struct, frozen=True, kw_only=True):
    """Whether the manager knows the service, starts it at login and runs it now; `words` are the manager's own.

    `restarts` counts those after a failure; None where the manager does not count them.
    """

    loaded: bool
    at_login: bool
    running: bool
    pid: int | None
    restarts: int | None
    words: str
