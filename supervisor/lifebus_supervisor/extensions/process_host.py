"""The host of extensions in a child process, which comes back when it ends."""

from collections.abc import Callable, Sequence
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup

from lifebus_contract.extensions import LoadErrorCode
from lifebus_supervisor.extensions.extension_child import ChildSettings, ExtensionChild
from lifebus_transports.messages.extensions.host import (
    HandlerCall,
    HandlerReturn,
    LoadedModule,
    LogTaker,
    ModuleSource,
    ToolFault,
    ToolUser,
)

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 30.0
_STEADY_S: Final = 60.0
"""A child that ran so long has shown that it can: the next one is started without a long pause."""

_log = structlog.get_logger("lifebus.extensions")


class ProcessHost:
    """Runs extensions in one child process (`ExtensionHost`).

    What was under way when the child ended is answered with a fault.  The child that comes back imports the same
    modules; one that does not register the same handlers again is not called any more.  `tasks` owns the children,
    `clock` is monotonic seconds.
    """

    def __init__(self, settings: ChildSettings, tasks: TaskGroup, log: LogTaker, clock: Callable[[], float]) -> None:
        self._settings, self._tasks, self._log, self._clock = settings, tasks, log, clock
        self._restarts = 0
        self._child: ExtensionChild | None = None
        self._up = anyio.Event()
        self._closed = anyio.Event()
        self._loaded: dict[str, LoadedModule] = {}

    @property
    def restarts(self) -> int:
        """How often the child has ended and come back."""
        return self._restarts

    @property
    def pid(self) -> int | None:
        """The process of the child that runs now."""
        return None if self._child is None or self._child.ended.is_set() else self._child.pid

    async def load(self, modules: Sequence[ModuleSource]) -> list[LoadedModule]:
        """Start the child and import modules; where one of them fails nothing goes on, and the host is to be closed."""
        child = ExtensionChild(self._settings, self._tasks, self._log)
        try:
            await child.start()
        except OSError as fault:
            why = ToolFault(LoadErrorCode.HOST_FAILED, f"the process cannot be started: {fault.strerror}")
            return [LoadedModule(one.module_name, fault=why) for one in modules]
        self._child = child
        found = await child.load(modules)
        if child.ended.is_set() or any(one.fault is not None for one in found):
            return found
        self._loaded = {one.module_name: one for one in found}
        self._up.set()
        self._tasks.start_soon(self._supervise, child, tuple(modules))
        return found

    async def call(self, call: HandlerCall, use_tool: ToolUser) -> HandlerReturn:
        """Call a handler, as soon as there is a child; see `ExtensionHost`."""
        with anyio.move_on_after(call.timeout_ms / 1000):
            await self._up.wait()
        child = self._child
        if child is None or self._closed.is_set() or not self._up.is_set():
            return HandlerReturn(fault=ToolFault("host_ended", "the process of the extensions has not come back"))
        if (fault := self._loaded[call.module_name].fault) is not None:
            return HandlerReturn(fault=fault)
        return await child.call(call, use_tool)

    async def aclose(self) -> None:
        """End the child and wait for its end."""
        self._closed.set()
        if self._child is not None:
            self._child.kill("the extensions are closed")
            await self._child.ended.wait()

    async def _supervise(self, child: ExtensionChild, modules: tuple[ModuleSource, ...]) -> None:
        """Bring the child back whenever it ends, until the host is closed."""
        pause = 0.0
        while True:
            started = self._clock()
            await child.ended.wait()
            self._up = anyio.Event()
            if self._closed.is_set():
                return
            if self._clock() - started > _STEADY_S:
                pause = 0.0
            # The first time at once: an accident is no reason to be away.
            with anyio.move_on_after(pause):
                await self._closed.wait()
                return
            pause = min(_LONGEST_PAUSE_S, max(_FIRST_PAUSE_S, 2 * pause))
            child = await self._restart(child, modules)

    async def _restart(self, old: ExtensionChild, modules: tuple[ModuleSource, ...]) -> ExtensionChild:
        child = ExtensionChild(self._settings, self._tasks, self._log)
        self._restarts += 1
        try:
            await child.start()
        except OSError as fault:
            _log.warning("extension_host_not_started", reason=fault.strerror)
            return old  # it has ended, so that the next try follows after a pause
        self._child = child
        found = await child.load(modules)
        for one in found:
            self._loaded[one.module_name] = _same(self._loaded[one.module_name], one)
        if not child.ended.is_set():
            _log.info("extension_host_restarted", pid=child.pid, restarts=self._restarts)
            self._up.set()
        return child


def _same(before: LoadedModule, now: LoadedModule) -> LoadedModule:
    """Return what a module is after a restart: numbers of handlers mean nothing where others are registered."""
    if now.fault is not None:
        return LoadedModule(now.module_name, before.registrations, now.fault)
    if now.registrations != before.registrations:
        why = "it registered other handlers when its process came back; reload the extensions"
        return LoadedModule(now.module_name, before.registrations, ToolFault("handlers_changed", why))
    return LoadedModule(now.module_name, before.registrations)
