"""`[[notifications]]` of the configuration: what `lifebus notify --rules` reports, when and where to.  Pure."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from lifebus_contract.fields import Identifier
from lifebus_supervisor.runtime.inbox.quiet_hours import QuietHours
from lifebus_supervisor.runtime.inbox.settings import check_url

ReportedKind = Literal["waits", "escalations", "idle", "ends", "failures", "pressure", "silence"]
"""What `lifebus notify --on` takes; a test compares them."""

_Text = Annotated[str, Meta(min_length=1, max_length=4_096)]
_Time = Annotated[str, Meta(pattern=r"^\d{1,9}(\.\d{1,6})?(ms|s|m|h)$")]
"""A time as the flags have it: ``500ms``, ``10s``, ``5m``, ``1h``."""

_ADDRESSES: Final = ("webhook", "webhook_file", "webhook_variable")
_SECRETS: Final = ("secret_file", "secret_variable")
_SERVICES: Final = ("apprise_file", "apprise_variable")


class NotificationRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[notifications]]`: the flags of `lifebus notify` under the same names (docs/tools.md, "Rules").

    Without an address, a command and a service the desktop is meant.
    """

    name: Identifier
    """The named consumer that keeps the rule's place."""
    on: Annotated[tuple[ReportedKind, ...], Meta(min_length=1)] = ("waits", "ends", "failures", "pressure")
    adapter: tuple[Identifier, ...] = ()
    project: tuple[_Text, ...] = ()
    session: tuple[_Text, ...] = ()
    after: _Time = "10s"
    pressure: Annotated[int, Meta(ge=1, le=100)] = 80
    quiet: str | None = None
    drop_quiet: bool = False
    max_age: _Time = "10m"
    group: _Time = "2s"
    command: tuple[_Text, ...] = ()
    env: tuple[_Text, ...] = ()
    webhook: _Text | None = None
    webhook_file: _Text | None = None
    webhook_variable: _Text | None = None
    secret_file: _Text | None = None
    secret_variable: _Text | None = None
    apprise_file: _Text | None = None
    apprise_variable: _Text | None = None
    send_timeout: _Time = "10s"

    def __post_init__(self) -> None:
        if not self.name.isprintable():
            raise ValueError("`name` must not hold control characters")
        ways = [name for name in (*_ADDRESSES, *_SERVICES) if getattr(self, name) is not None]
        if len(ways) + bool(self.command) > 1:
            raise ValueError("a rule has one way out: a command, an address or a service; make a second rule")
        if not set(ways) & set(_ADDRESSES) and any(getattr(self, name) is not None for name in _SECRETS):
            raise ValueError("`secret_file`, `secret_variable`: only posts to an address are signed")
        if self.quiet is not None:
            QuietHours.parse(self.quiet)
        if self.webhook is not None:
            check_url(self.webhook)

    def __str__(self) -> str:
        return self.name
