"""The extensions that are loaded together: a version, its handlers in order, and the host that runs them."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import anyio
from msgspec import Struct

from lifebus_contract.capability import TrustMode
from lifebus_contract.extensions import ExtensionCapabilities, ExtensionInfo, LoadError
from lifebus_supervisor.extensions.ports import ExtensionHost
from lifebus_supervisor.extensions.rules.dispatch import Handler

BOOTSTRAP: Final = "bootstrap"
"""The version before anything was loaded."""

NEVER: Final = "1970-01-01T00:00:00.000Z"


class PassHandler(Struct, frozen=True):
    """A handler in its place in a pass, and its number within its module."""

    handler: Handler
    number: int


class ExtensionSet:
    """What is loaded.  It never changes; a reload makes another one, and this one is closed once no pass uses it.

    `capabilities` has None for a module that declares none at all; `errors` say what was left out.
    """

    def __init__(  # noqa: PLR0913
        self,
        version: str,
        loaded_at: str,
        mode: TrustMode,
        *,
        modules: Sequence[ExtensionInfo] = (),
        capabilities: Mapping[str, ExtensionCapabilities | None] | None = None,
        handlers: Mapping[str, Sequence[PassHandler]] | None = None,
        errors: Sequence[LoadError] = (),
        host: ExtensionHost | None = None,
    ) -> None:
        self.version, self.loaded_at, self.mode = version, loaded_at, mode
        self.modules = tuple(modules)
        self.capabilities = dict(capabilities or {})
        self.handlers = {event: tuple(found) for event, found in (handlers or {}).items()}
        self.errors = tuple(errors)
        self.host = host
        self._passes = 0
        self._idle = anyio.Event()
        self._idle.set()

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Keep the host open while a pass runs."""
        if not self._passes:
            self._idle = anyio.Event()
        self._passes += 1
        try:
            yield
        finally:
            self._passes -= 1
            if not self._passes:
                self._idle.set()

    async def retire(self) -> None:
        """Close the host once the passes that began with it are over."""
        await self._idle.wait()
        if self.host is not None:
            await self.host.aclose()


def empty_set(mode: TrustMode) -> ExtensionSet:
    """Return the set before anything was loaded."""
    return ExtensionSet(BOOTSTRAP, NEVER, mode)
