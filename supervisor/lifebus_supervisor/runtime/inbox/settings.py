"""The section `[inbox]` of the configuration: how people learn of questions.  Pure."""

import re
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from lifebus_contract.fields import Identifier
from lifebus_supervisor.runtime.inbox.quiet_hours import QuietHours
from lifebus_supervisor.runtime.inbox.templates import FIELDS, TITLE, unknown_fields

NONE: Final = "none"
"""Where there is nothing of a kind."""

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_Text = Annotated[str, Meta(min_length=1, max_length=4_096)]

_KEYS: Final = {
    "webhook": ("url", "url_file", "url_variable", "secret_file", "secret_variable"),
    "desktop": ("title", "body"),
    "terminal": ("device", "title", "body"),
    "file": ("folder",),
    "apprise": ("url_file", "url_variable", "title", "body"),
}
"""Which keys each kind of channel has beside those that all have."""

_OPTIONAL: Final = ("url", "url_file", "url_variable", "secret_file", "secret_variable", "device", "folder", "body")


class ChannelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[inbox.channels]]`: a way by which questions are brought to people (docs/inbox.md, "Channels").

    Secrets, and URLs that are secret, stand in files or variables and never here.
    """

    name: Identifier
    kind: Literal["webhook", "desktop", "terminal", "file", "apprise"]
    url: _Text | None = None
    url_file: _Text | None = None
    url_variable: _Text | None = None
    secret_file: _Text | None = None
    secret_variable: _Text | None = None
    device: _Text | None = None
    """The terminal that is written to; without one, that of the broker."""
    folder: _Text | None = None
    """Where questions are written as files; without one, ``inbox`` in the state directory."""
    title: _Text = TITLE
    body: _Text | None = None
    """Templates; ``$title``, ``$reason`` and others stand for what the question has."""
    remind: bool = True
    """Whether people are reminded by it."""
    timeout_ms: Annotated[int, Meta(ge=100, le=120_000)] = 10_000
    """How long one try may take."""

    def __post_init__(self) -> None:
        if not self.name.isprintable():
            raise ValueError("`name` must not hold control characters")
        for key in _OPTIONAL:
            if getattr(self, key) is not None and key not in _KEYS[self.kind]:
                raise ValueError(f"`{key}` means nothing for a channel of the kind {self.kind}")
        self._check_sources()
        if self.device is not None and not self.device.startswith("/dev/"):
            raise ValueError("`device`: a terminal is a file in /dev")
        for key in ("url_file", "secret_file", "device", "folder"):
            _check_path(key, getattr(self, key))
        for key in ("url_variable", "secret_variable"):
            value = getattr(self, key)
            if value is not None and not _VARIABLE.fullmatch(value):
                raise ValueError(f"`{key}`: {value[:64]!r} is no name of a variable")
        if self.url is not None:
            check_url(self.url)
        for key in ("title", "body"):
            _check_template(key, getattr(self, key) or "")

    def __str__(self) -> str:
        return self.name

    def _check_sources(self) -> None:
        """Refuse a channel that has no address or no secret, or two."""
        if self.kind in ("webhook", "apprise"):
            _check_one("url", (self.url, self.url_file, self.url_variable))
        if self.kind == "webhook":
            _check_one("secret_file", (self.secret_file, self.secret_variable))


class InboxSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How people learn of questions, and when they are reminded; no question ever answers itself."""

    channels: tuple[ChannelSettings, ...] = ()
    remind_after_min: Annotated[int, Meta(ge=0, le=525_600)] = 60
    """Minutes until the first reminder, which double with each; 0 reminds nobody."""
    remind_longest_min: Annotated[int, Meta(ge=1, le=525_600)] = 1_440
    """The longest pause between two reminders."""
    quiet_hours: str = NONE
    """Hours of local time in which nobody is reminded, such as ``22:00-07:30``."""
    link_base: str = NONE
    """The address of a server that takes signed answer links; with it, messages hold such links."""

    def __post_init__(self) -> None:
        names = [one.name for one in self.channels]
        if len(set(names)) < len(names):
            raise ValueError("inbox.channels: two of them have the same `name`")
        if self.quiet_hours != NONE:
            try:
                QuietHours.parse(self.quiet_hours)
            except ValueError as fault:
                raise ValueError(f"inbox.quiet_hours is {self.quiet_hours[:64]!r}: {fault}") from None
        if self.link_base != NONE:
            check_url(self.link_base)

    @property
    def quiet(self) -> QuietHours | None:
        """The quiet hours, None where there are none."""
        return None if self.quiet_hours == NONE else QuietHours.parse(self.quiet_hours)


def check_url(url: str) -> None:
    """Refuse what is no address that can be posted to, or holds a password.

    Raises:
        ValueError: says why, and never quotes what may be secret.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its words would quote the address
        raise ValueError("`url` is no address, or has no port that can be reached") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("`url` begins with http:// or https:// and names a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("`url` must not hold a password; put the whole of it into `url_file`")
    if not url.isascii() or not url.isprintable() or " " in url or parts.fragment:
        raise ValueError("`url` holds characters that an address does not have")
    if port == 0:
        raise ValueError("`url` is no address, or has no port that can be reached")


def _check_one(key: str, values: tuple[str | None, ...]) -> None:
    if sum(value is not None for value in values) != 1:
        stem = key.partition("_")[0]
        names = f"`{stem}_file` and `{stem}_variable`"
        raise ValueError(f"`{key}`: exactly one of {names} is needed" + (", or a plain `url`" * (stem == "url")))


def _check_path(key: str, value: str | None) -> None:
    if value is not None and (not value.startswith(("/", "~")) or "\0" in value):
        raise ValueError(f"`{key}`: a path here is absolute, or begins with ~")


def _check_template(key: str, template: str) -> None:
    try:
        unknown = unknown_fields(template)
    except ValueError as fault:
        raise ValueError(f"`{key}`: {fault}") from None
    if unknown:
        raise ValueError(f"`{key}`: `${unknown[0][:64]}` means nothing; known are {', '.join(FIELDS)}")
