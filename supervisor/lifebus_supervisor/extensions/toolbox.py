"""The broker's side of the tools of one call: who may use what, and which jobs the call has queued."""

from typing import Any

import msgspec

from lifebus_contract import CapabilityRefused, InvalidRequest
from lifebus_contract.capability import TrustMode
from lifebus_contract.extensions import ExtensionCapabilities
from lifebus_contract.jobs import NewJob
from lifebus_supervisor.extensions.pass_log import log_undeclared
from lifebus_supervisor.extensions.ports import JobQueue, SessionSettings
from lifebus_supervisor.extensions.rules.plain_json import as_object
from lifebus_supervisor.extensions.rules.trust import ENQUEUE, is_tolerated, refused_action


class Toolbox:
    """The tools of one call.  `queued` has the ids of the jobs that it queued or found queued."""

    def __init__(
        self,
        module_name: str,
        mode: TrustMode,
        declared: ExtensionCapabilities | None,
        jobs: JobQueue | None,
        settings: SessionSettings | None,
    ) -> None:
        self.queued: set[str] = set()
        self.is_closed = False
        self._module_name, self._mode, self._declared = module_name, mode, declared
        self._jobs, self._settings = jobs, settings

    async def use(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Use a tool, and return its answer as plain JSON.

        Raises:
            LifebusError: it is refused, or there is no such tool.
        """
        # The host closes them too; here it holds whatever a host does.
        if self.is_closed:
            raise InvalidRequest("the handler has settled, and its tools are closed", code="tools_closed")
        match tool:
            case "enqueue_job":
                return await self._enqueue(arguments)
            case "session_settings":
                return await self._session_settings(arguments)
            case _:
                raise CapabilityRefused(f"there is no tool `{tool[:64]}`", code="tool_unavailable")

    async def _enqueue(self, arguments: dict[str, Any]) -> Any:
        if (why := refused_action(self._mode, self._declared, ENQUEUE)) is not None:
            raise CapabilityRefused(why, code="undeclared_capability")
        if self._jobs is None:
            raise CapabilityRefused("this broker has no queue", code="tool_unavailable")
        try:
            job = msgspec.convert(arguments, NewJob)
        except msgspec.ValidationError as fault:
            raise InvalidRequest(f"no job: {fault}", code="malformed") from None
        if is_tolerated(self._mode, self._declared, ENQUEUE):
            log_undeclared(self._module_name, ENQUEUE)
        answer = await self._jobs.enqueue(job)
        self.queued.add(answer.job.id)
        return msgspec.to_builtins(answer)

    async def _session_settings(self, arguments: dict[str, Any]) -> Any:
        if self._settings is None:
            raise CapabilityRefused("this broker knows no settings of sessions", code="tool_unavailable")
        session_id = as_object(arguments).get("sessionId")
        if not isinstance(session_id, str) or not session_id:
            raise InvalidRequest("`session_id` is required", code="missing")
        return dict(await self._settings.settings_of(session_id))
