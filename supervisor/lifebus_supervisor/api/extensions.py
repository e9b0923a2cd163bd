"""The verbs of extensions (docs/extensions.md)."""

from lifebus_supervisor.api.calls import Call
from lifebus_supervisor.api.table import Handlers
from lifebus_supervisor.extensions.extensions import Extensions
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.extensions.bodies import (
    AuditPage,
    AuditQuery,
    DenyExtensions,
    ExtensionList,
    ReloadAnswer,
    ReloadExtensions,
    TrustAnswer,
    TrustExtension,
)


class ExtensionVerbs:
    """Serves the verbs of a broker's extensions."""

    def __init__(self, extensions: Extensions) -> None:
        self._extensions = extensions

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        return {
            "extensions_list": self._list,
            "extensions_reload": self._reload,
            "extensions_trust": self._trust,
            "extensions_denied": self._deny,
            "extensions_audit": self._audit,
        }

    def _list(self, _: Call, __: Nothing) -> ExtensionList:
        return self._extensions.listing()

    async def _reload(self, _: Call, body: ReloadExtensions) -> ReloadAnswer:
        return await self._extensions.reload(body.actor)

    async def _trust(self, _: Call, body: TrustExtension) -> TrustAnswer:
        return await self._extensions.trust(body.name, body.expected_hash, body.actor)

    async def _deny(self, _: Call, body: DenyExtensions) -> Nothing:
        await self._extensions.deny(body.actor, body.why)
        return Nothing()

    async def _audit(self, _: Call, body: AuditQuery) -> AuditPage:
        records, complete = await self._extensions.audit.read(body.after, body.limit)
        return AuditPage(records=tuple(records), complete=complete)
