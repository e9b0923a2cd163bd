"""The extensions of a broker: what is loaded, reloads, trust and the audit (docs/extensions.md)."""

from collections.abc import Sequence
from getpass import getuser
from typing import Final

from lifebus._internal.connection import Connection
from lifebus_contract.extensions import AuditRecord
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.extensions.bodies import (
    Actor,
    AuditPage,
    AuditQuery,
    ExtensionList,
    ReloadAnswer,
    ReloadExtensions,
    TrustAnswer,
    TrustExtension,
)
from lifebus_transports.messages.verbs import find_verb

_ROLE: Final = "operator"


class ExtensionAdmin:
    """The extensions of a broker.  Every call ends within `timeout` seconds, except that a reload may take longer."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection, self._timeout = connection, timeout

    async def list(self) -> ExtensionList:
        """Return the loaded extensions, and those that were left out at the start."""
        return await self._connection.ask("extensions_list", Nothing(), ExtensionList, timeout=self._timeout)

    async def reload(self, *, by: str | None = None) -> ReloadAnswer:
        """Load all extensions again.  If there is any error, the present set stays, and the answer says so.

        `by` says who asks, for the audit (default: the name of the user).

        Raises:
            LifebusError: it was refused, or no answer came.
        """
        timeout = self._timeout * find_verb("extensions_reload").timeout_factor
        body = ReloadExtensions(actor=_actor(by))
        return await self._connection.ask("extensions_reload", body, ReloadAnswer, timeout=timeout)

    async def trust(self, name: str, *, expected_hash: str | None = None, by: str | None = None) -> TrustAnswer:
        """Record that the present files of the extension `name` are trusted; a reload loads them.

        `by` says who trusts them, for the audit.  With `expected_hash`, they are trusted only if they have this hash.

        Raises:
            InvalidRequest: there is no such extension, or its folder is unsafe.
            StateConflict: its files have another hash.
        """
        body = TrustExtension(name=name, expected_hash=expected_hash, actor=_actor(by))
        return await self._connection.ask("extensions_trust", body, TrustAnswer, timeout=self._timeout)

    async def audit(self) -> Sequence[AuditRecord]:
        """Return who loaded, trusted and was refused, as far as it is kept, the oldest record first."""
        found: tuple[AuditRecord, ...] = ()
        complete = False
        while not complete:
            after = found[-1].number if found else 0
            page = await self._connection.ask(
                "extensions_audit", AuditQuery(after=after), AuditPage, timeout=self._timeout
            )
            found += page.records
            complete = page.complete or not page.records
        return found


def _actor(by: str | None) -> Actor:
    return Actor(role=_ROLE, id=by or getuser(), origin={"kind": "local"})
