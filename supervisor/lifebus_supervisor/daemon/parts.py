"""Parts of a broker that many brokers never use: each is made complete, once, at the start or at its first use.

One is made at the start if the settings ask for something of it, or the broker before has left something of it.
Otherwise there is nothing that it could act on before a verb of its own is called.
"""

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Generic, Protocol, TypeVar, cast

import anyio
import anyio.to_thread
from msgspec import Struct

from lifebus_broker.ports import Journal
from lifebus_contract import LifebusError, TransportError
from lifebus_contract.fields import Document
from lifebus_supervisor.api.calls import Call
from lifebus_supervisor.api.table import Handlers
from lifebus_supervisor.version import VERSION, installed_version


class Work(Protocol):
    """A part that is complete once it is loaded and started."""

    async def load(self) -> None:
        """Read what the broker before has left.

        Raises:
            LifebusError: it cannot be read; to try it again does no harm.
        """
        ...

    async def start(self, *, at_start: bool) -> None:
        """Go on with what was read, and start what runs beside; `at_start` is false at a first use.

        Raises:
            LifebusError: it cannot be started; nothing of it runs.
        """
        ...

    def handlers(self) -> Handlers:
        """Return what serves its verbs."""
        ...

    def counters(self) -> Mapping[str, int]:
        """Return what `status` says of it."""
        ...

    def stop(self) -> None:
        """Begin nothing any more."""
        ...

    @property
    def is_finishing(self) -> bool:
        """Whether something of it is not durable yet."""
        ...

    def close(self) -> None:
        """Let go of what it holds beside memory."""
        ...


W = TypeVar("W", bound=Work)


class Part(Generic[W]):
    """A part and its verbs; `made` is None until it is loaded.

    `module` is imported in a thread before `compose` is called, which needs it: neither holds the loop for long.
    """

    def __init__(self, module: str, compose: Callable[[], W], verbs: Iterable[str]) -> None:
        self.made: W | None = None
        self._module, self._compose, self._verbs = module, compose, tuple(verbs)
        self._draft: W | None = None
        self._handlers: Handlers = {}
        self._lock = anyio.Lock()
        self._is_unstarted = self._is_stopping = False

    async def load(self) -> None:
        """Make it at the start, up to where its verbs can be served; `start` is to follow.

        Raises:
            LifebusError: what the broker before has left cannot be read.
        """
        self._take(await self._loaded())
        self._is_unstarted = True

    async def start(self) -> None:
        """Start what `load` has made; nothing where it has made nothing.

        Raises:
            LifebusError: it cannot be started.
        """
        if self._is_unstarted and self.made is not None:
            self._is_unstarted = False
            await self.made.start(at_start=True)

    async def use(self) -> W:
        """Return the part, which the first caller has made.

        Raises:
            TransportError: the broker is stopping.
            LifebusError: it cannot be made now; the next use tries it again.
        """
        if self.made is None:
            async with self._lock:
                if self._is_stopping:
                    raise TransportError("the broker is stopping; try again", code="busy")
                # Others may have waited for the same.
                if self.made is None:
                    made = await self._loaded()
                    await made.start(at_start=False)
                    self._take(made)
        return self._require()

    def handlers(self) -> Handlers:
        """Return what serves its verbs, the first of which has the part made."""
        return {verb: partial(self._serve, verb) for verb in self._verbs}

    def stop(self) -> None:
        """Begin nothing any more; one that is being made is stopped as soon as it is whole."""
        self._is_stopping = True
        if self.made is not None:
            self.made.stop()

    @property
    def is_finishing(self) -> bool:
        """Whether it is being made, or has something that is not durable yet."""
        return self._lock.locked() or (self.made is not None and self.made.is_finishing)

    def close(self) -> None:
        """Let go of what it holds."""
        if self._draft is not None:
            self._draft.close()

    async def _loaded(self) -> W:
        if self._draft is None:
            await anyio.to_thread.run_sync(_import, self._module)
            # Kept where loading fails: what listens was connected, and must not be so twice.
            self._draft = self._compose()
        await self._draft.load()
        return self._draft

    def _take(self, made: W) -> None:
        self._handlers = made.handlers()
        self.made = made
        if self._is_stopping:
            made.stop()

    def _require(self) -> W:
        if self.made is None:
            raise TransportError("the broker is stopping; try again", code="busy")
        return self.made

    async def _serve(self, verb: str, call: Call, body: Document) -> object:
        await self.use()
        answer: object = self._handlers[verb](call, body)
        return await cast("Awaitable[object]", answer) if isinstance(answer, Awaitable) else answer


def _import(module: str) -> None:
    """Import the module of a part.

    Raises:
        LifebusError: ``broker_outdated``.
    """
    # A half of the old version and a half of the new one would fail anywhere.
    if module not in sys.modules and installed_version() not in {VERSION, None}:
        raise LifebusError(
            f"lifebus {installed_version()} was installed over the broker, which is {VERSION} and had not loaded this"
            " yet; restart the broker",
            code="broker_outdated",
        )
    import_module(module)


class Footprint(Struct, frozen=True):
    """What the streams are called that a part leaves in the journal: whole names, and what names begin with.

    What always stands beside another one of them is left out.
    """

    names: tuple[str, ...]
    prefixes: tuple[str, ...]

    async def is_in(self, journal: Journal) -> bool:
        """Whether a journal has such a stream.

        Raises:
            LifebusError: the journal cannot be read.
        """
        # All names in one look: each takes a way to a thread and back.
        if self.names and any(await journal.heads(self.names)):
            return True
        for prefix in self.prefixes:
            if await journal.streams(prefix):
                return True
        return False
