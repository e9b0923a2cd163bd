"""The host of extensions in this process, for tests: what a handler does, it does here."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from lifebus._extension_host.runner import Runner
from lifebus.extensions import ToolRefused
from lifebus_contract import LifebusError
from lifebus_transports.messages.extensions.host import (
    CallHandler,
    HandlerCall,
    HandlerReturn,
    LoadedModule,
    LogTaker,
    ModuleSource,
    Settled,
    ToolFault,
    ToolUser,
)

GRACE_S: Final = 1.0
"""How long a handler may take to end once it was cancelled; one that does not end is left alone."""


class InProcessHost:
    """Runs extensions on this event loop (`lifebus_supervisor.extensions.ports.ExtensionHost`).

    Nothing protects the process: a handler that blocks blocks everybody, and what a module does at its import stays.
    """

    def __init__(self, log: LogTaker) -> None:
        self.restarts = 0
        self._runner = Runner(log)
        self._calls: set[asyncio.Task[Settled]] = set()

    async def load(self, modules: Sequence[ModuleSource]) -> list[LoadedModule]:
        """Import modules, in order."""
        reports = [self._runner.load(one) for one in modules]
        return [LoadedModule(one.module_name, one.registrations, one.fault) for one in reports]

    async def call(self, call: HandlerCall, use_tool: ToolUser) -> HandlerReturn:
        """Call a handler and return how that ended."""

        async def ask(tool: str, arguments: dict[str, Any]) -> Any:
            try:
                return msgspec.to_builtins(await use_tool(tool, arguments), str_keys=True)
            except LifebusError as fault:
                raise ToolRefused(fault.code or "refused", fault.detail) from None

        asked = CallHandler(0, call.module_name, call.handler, Raw(call.event))
        task = asyncio.create_task(self._runner.call(asked, ask))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        done, _ = await asyncio.wait([task], timeout=call.timeout_ms / 1000)
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=GRACE_S)
            return HandlerReturn(fault=ToolFault("handler_timeout", f"no result within {call.timeout_ms} ms"))
        settled = task.result()
        if settled.fault is not None:
            return HandlerReturn(fault=settled.fault)
        return HandlerReturn(msgspec.json.decode(settled.value))

    async def aclose(self) -> None:
        """Cancel what runs, and forget the modules."""
        for task in tuple(self._calls):
            task.cancel()
        if self._calls:
            await asyncio.wait(tuple(self._calls), timeout=GRACE_S)
        self._runner.close()
