"""Handlers called in this process: an event in, what the handler returned out, tools closed behind it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from lifebus._extension_host.importing import HandlerFunction, ImportedModule, describe, forget_package, import_module
from lifebus.extensions import Dedupe, Enqueued, JobPriority, ToolRefused
from lifebus_transports.messages.extensions.host import (
    MAX_VALUE_BYTES,
    CallHandler,
    ExtensionLog,
    Imported,
    ModuleSource,
    Settled,
    ToolFault,
)

AskTool = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Has the broker use a tool for one call; raises ToolRefused."""

Log = Callable[[ExtensionLog], None]

_MAX_FIELDS: Final = 32
_MAX_TEXT: Final = 2_048


class Runner:
    """The imported modules of a host, and the calls of their handlers."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._modules: dict[str, ImportedModule] = {}

    def load(self, source: ModuleSource) -> Imported:
        """Import a module; what it runs at its import runs here."""
        module = import_module(source)
        if module.report.fault is None:
            self._modules[source.module_name] = module
        return module.report

    async def call(self, call: CallHandler, ask: AskTool) -> Settled:
        """Call a handler and return how that ended; a cancelled call is over with its cancellation."""
        module = self._modules.get(call.module_name)
        if module is None or not 0 <= call.handler < len(module.handlers):
            return _fault(call, "handler_unknown", "there is no such handler")
        bound = module.handlers[call.handler]
        tools = _Tools(call.module_name, ask, self._log)
        try:
            event = msgspec.json.decode(call.event, type=bound.event)
        except (msgspec.DecodeError, TypeError) as fault:
            return _fault(call, "payload_mismatch", f"the payload is not what the handler's annotation names: {fault}")
        try:
            value = await _run(bound, event, tools)
        except ToolRefused as fault:
            return _fault(call, fault.code, f"{type(fault).__name__}: {fault}")
        except asyncio.CancelledError:
            return _fault(call, "handler_cancelled", "the handler was cancelled")
        # Also SystemExit: a handler must not end the host.
        except BaseException as fault:  # noqa: BLE001
            return _fault(call, "handler_failed", describe(fault))
        finally:
            tools.closed = True
        return _settled(call, value)

    def close(self) -> None:
        """Forget the modules, for a process that goes on."""
        for module in self._modules.values():
            forget_package(module.package)
        self._modules = {}


async def _run(bound: HandlerFunction, event: object, tools: "_Tools") -> object:
    return await (bound.handler(event, tools) if bound.takes_tools else bound.handler(event))


def _settled(call: CallHandler, value: object) -> Settled:
    try:
        data = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as fault:
        return _fault(call, "result_unreadable", f"what the handler returned is no JSON: {fault}")
    if len(data) > MAX_VALUE_BYTES:
        return _fault(call, "result_too_large", f"what the handler returned is larger than {MAX_VALUE_BYTES} bytes")
    return Settled(call.number, Raw(data))


def _fault(call: CallHandler, code: str, text: str) -> Settled:
    return Settled(call.number, fault=ToolFault(code, text[:1024]))


class _Tools:
    """The tools of one call (`lifebus.extensions.Tools`)."""

    def __init__(self, module_name: str, ask: AskTool, log: Log) -> None:
        self.closed = False
        self.log = _Log(module_name, log)
        self._ask = ask

    async def enqueue_job(  # noqa: PLR0913
        self,
        job_type: str,
        payload: Mapping[str, Any],
        *,
        project_id: str,
        source_session_id: str | None = None,
        priority: JobPriority | str | None = None,
        dedupe: Dedupe | str | None = None,
        dedupe_key: str | None = None,
        job_id: str | None = None,
    ) -> Enqueued:
        given = {
            "type": job_type,
            "payload": dict(payload),
            "projectId": project_id,
            "sourceSessionId": source_session_id,
            "priority": priority,
            "dedupe": dedupe,
            "dedupeKey": dedupe_key,
            "jobId": job_id,
        }
        asked = {key: value for key, value in given.items() if value is not None}
        return msgspec.convert(await self._use("enqueue_job", asked), Enqueued)

    async def session_settings(self, session_id: str) -> dict[str, Any]:
        return msgspec.convert(await self._use("session_settings", {"sessionId": session_id}), dict[str, Any])

    async def session_setting(self, session_id: str, key: str, default: Any = None) -> Any:
        return (await self.session_settings(session_id)).get(key, default)

    async def _use(self, tool: str, arguments: dict[str, Any]) -> Any:
        if self.closed:
            raise ToolRefused("tools_closed", f"`{tool}`: the handler has settled, and its tools are closed")
        return await self._ask(tool, arguments)


class _Log:
    def __init__(self, module_name: str, log: Log) -> None:
        self._module_name, self._log = module_name, log

    def debug(self, message: str, **fields: Any) -> None:
        self._write("debug", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._write("info", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._write("warning", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._write("error", message, fields)

    def _write(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        kept = {str(key)[:64]: str(value)[:_MAX_TEXT] for key, value in list(fields.items())[:_MAX_FIELDS]}
        self._log(ExtensionLog(self._module_name, level, str(message)[:_MAX_TEXT], kept))
