"""Extensions for scripts without an event loop."""

from collections.abc import Sequence
from functools import partial

from anyio.from_thread import BlockingPortal

from lifebus.extension_admin import ExtensionAdmin
from lifebus_contract.extensions import AuditRecord
from lifebus_transports.messages.extensions.bodies import ExtensionList, ReloadAnswer, TrustAnswer


class BlockingExtensions:
    """`lifebus.extension_admin.ExtensionAdmin` without an event loop: its calls block; the errors are the same."""

    def __init__(self, portal: BlockingPortal, extensions: ExtensionAdmin) -> None:
        self._portal = portal
        self._extensions = extensions

    def list(self) -> ExtensionList:
        """Return the loaded extensions, and those that were left out at the start."""
        return self._portal.call(self._extensions.list)

    def reload(self, *, by: str | None = None) -> ReloadAnswer:
        """Load all extensions again.  If there is any error, the present set stays, and the answer says so."""
        return self._portal.call(partial(self._extensions.reload, by=by))

    def trust(self, name: str, *, expected_hash: str | None = None, by: str | None = None) -> TrustAnswer:
        """Record that the present files of an extension are trusted; a reload loads them.

        Raises:
            InvalidRequest: there is no such extension, or its folder is unsafe.
            StateConflict: its files have another hash.
        """
        return self._portal.call(partial(self._extensions.trust, name, expected_hash=expected_hash, by=by))

    def audit(self) -> Sequence[AuditRecord]:
        """Return who loaded, trusted and was refused, as far as it is kept, the oldest record first."""
        return self._portal.call(self._extensions.audit)
