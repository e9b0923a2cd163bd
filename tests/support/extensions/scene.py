"""Extensions for tests: folders with handlers, and hosts that run them."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

import anyio
import msgspec

from lifebus._extension_host.in_process import InProcessHost
from lifebus_contract.extensions import RuntimeEvent
from lifebus_supervisor.extensions.extension_child import ChildSettings
from lifebus_supervisor.extensions.ports import ExtensionHost
from lifebus_supervisor.extensions.process_host import ProcessHost
from lifebus_transports.messages.extensions.host import ExtensionLog, HandlerCall, HandlerReturn, ModuleSource
from support.patience import PATIENCE_S

LONG_MS = round(PATIENCE_S * 1_000)

Kind = Literal["process", "in_process"]


def write_extension(root: Path, name: str, code: str, *, manifest: str | None = None, **files: str) -> Path:
    """Write an extension's folder, and return it; further files by their names without the ending `.py`."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "events.py").write_text(dedent(code))
    if manifest is not None:
        (folder / "extension.toml").write_text(dedent(manifest))
    for stem, text in files.items():
        (folder / f"{stem}.py").write_text(dedent(text))
    return folder


def source_of(folder: Path) -> ModuleSource:
    """Return a folder as a host imports it."""
    return ModuleSource(folder.name, str(folder), "events.py")


def event(event_type: str = "e", payload: object = None) -> bytes:
    """Return an event as a host gets it."""
    made = RuntimeEvent(type=event_type, payload=payload, emitted_at="2026-11-23T12:00:00.000Z")
    return msgspec.json.encode(made)


async def no_tool(tool: str, arguments: dict[str, Any]) -> Any:
    """Be no tool."""
    raise AssertionError(f"{tool} {arguments}")


class HostBox:
    """A host under test, and what its extensions logged."""

    def __init__(self, host: ExtensionHost, logged: list[ExtensionLog]) -> None:
        self.host, self.logged = host, logged

    async def call(
        self,
        module: str,
        payload: object = None,
        *,
        number: int = 0,
        timeout_ms: int = LONG_MS,
        tool: Any = no_tool,
    ) -> HandlerReturn:
        """Call a handler."""
        with anyio.fail_after(PATIENCE_S):
            return await self.host.call(HandlerCall(module, number, event(payload=payload), timeout_ms), tool)


@asynccontextmanager
async def opened_host(kind: Kind, *, memory_mb: int = 1_024, import_s: float = PATIENCE_S) -> AsyncIterator[HostBox]:
    """Yield a host that nothing is loaded into."""
    logged: list[ExtensionLog] = []
    is_over = False
    async with anyio.create_task_group() as tasks:
        host: ExtensionHost
        if kind == "process":
            settings = ChildSettings(memory_mb=memory_mb, import_s=import_s)
            host = ProcessHost(settings, tasks, logged.append, time.monotonic)
        else:
            host = InProcessHost(logged.append)
        try:
            yield HostBox(host, logged)
            is_over = True
        finally:
            with anyio.CancelScope(shield=True):
                await host.aclose()
            tasks.cancel_scope.cancel()
    # A host that lets a cancellation out ends a test in its middle, and the group takes it for its own.
    assert is_over
