"""Bodies of the verbs of extensions (docs/extensions.md).  Pure."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from lifebus_contract.extensions import AuditRecord, ExtensionInfo, LoadError
from lifebus_contract.fields import Count, Document, Identifier, Metadata, refuse_unprintable


class Actor(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Who asks, as the audit names it; `origin` says by which way, an address for instance."""

    role: Identifier = "operator"
    id: Identifier | None = None
    origin: Metadata = {}  # noqa: RUF012  msgspec makes a new one each time, and leaves it out when empty

    def __post_init__(self) -> None:
        if not f"{self.role}{self.id}".isprintable():
            refuse_unprintable(self)


class ReloadExtensions(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`extensions_reload`: load everything anew, or change nothing."""

    actor: Actor = Actor()


class DenyExtensions(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`extensions_denied`: write down that an adaptor has refused somebody, and why."""

    actor: Actor
    why: Annotated[str, Meta(min_length=1, max_length=256)]


class TrustExtension(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`extensions_trust`: trust the present contents of an extension; with `expected_hash` only these."""

    name: Annotated[str, Meta(min_length=1, max_length=128)]
    expected_hash: Annotated[str, Meta(max_length=80)] | None = None
    actor: Actor = Actor()


class AuditQuery(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`extensions_audit`: records behind a number, oldest first."""

    after: Count = 0
    limit: Annotated[int, Meta(ge=1, le=256)] = 64


class ExtensionList(Document, frozen=True, kw_only=True, rename="camel"):
    """The answer to `extensions_list`: what is loaded.  `errors` say what was left out at the start."""

    status: Literal["ok"] = "ok"
    snapshot_version: str
    loaded_at: str
    modules: tuple[ExtensionInfo, ...]
    errors: tuple[LoadError, ...] = ()
    is_loading: bool = False
    host_restarts: Count = 0
    lost_events: Count = 0


class ReloadedModule(Struct, frozen=True, kw_only=True, rename="camel"):
    """A loaded extension, in short."""

    name: str
    version: str
    agent_id: str
    events: tuple[str, ...]


class ReloadAnswer(Document, frozen=True, kw_only=True, rename="camel"):
    """The answer to `extensions_reload`; with `status` ``error`` the set before stays, and `code` says why."""

    status: Literal["ok", "error"]
    code: str | None
    reload_id: str
    message: str | None
    loaded_count: Count
    failed_count: Count
    snapshot_version: str
    loaded_at: str
    modules: tuple[ReloadedModule, ...]
    errors: tuple[LoadError, ...]


class TrustAnswer(Document, frozen=True, kw_only=True, rename="camel"):
    """The answer to `extensions_trust`: what is trusted now."""

    module_name: str
    path: str
    content_hash: str
    files: tuple[str, ...]


class AuditPage(Document, frozen=True, kw_only=True):
    """The answer to `extensions_audit`; `complete` says that nothing newer is there."""

    records: tuple[AuditRecord, ...]
    complete: bool
