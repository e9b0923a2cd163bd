"""One pass of an event through its handlers: each is called in order, and what it asks for is done or refused."""

from typing import Final

import anyio
import msgspec
import structlog
from msgspec import Struct

from lifebus_contract.extensions import (
    ActionOutcome,
    ActionRequest,
    ActionResult,
    ActionScope,
    ActionStatus,
    EmitResult,
    HandlerError,
    RuntimeEvent,
)
from lifebus_supervisor.extensions.extension_set import ExtensionSet, PassHandler
from lifebus_supervisor.extensions.pass_log import log_result, log_undeclared
from lifebus_supervisor.extensions.ports import ActionExecutor, ExtensionHost, JobQueue, SessionSettings
from lifebus_supervisor.extensions.rules.dispatch import Winner, action_result, before_execution, scope_of, winner_after
from lifebus_supervisor.extensions.rules.results import normalise
from lifebus_supervisor.extensions.rules.trust import is_tolerated
from lifebus_supervisor.extensions.toolbox import Toolbox
from lifebus_transports.messages.extensions.host import HandlerCall

EXECUTION_S: Final = 60.0
"""How long the execution of one action is waited for; what it came to is unknown after that."""

_log = structlog.get_logger("lifebus.extensions")


class Reach(Struct, frozen=True, kw_only=True):
    """What handlers reach through the broker; None where there is none."""

    executor: ActionExecutor | None = None
    jobs: JobQueue | None = None
    settings: SessionSettings | None = None


async def run_pass(loaded: ExtensionSet, event: RuntimeEvent, around: Reach) -> list[EmitResult]:
    """Tell every handler of an event of it, one after another, and return their results in that order."""
    results: list[EmitResult] = []
    handlers = loaded.handlers.get(event.type, ())
    if not handlers or loaded.host is None:
        return results
    data = msgspec.json.encode(event)
    scope = scope_of(event.payload)
    winner: Winner | None = None
    with loaded.in_use():
        for bound in handlers:
            result = await _call(loaded, loaded.host, bound, data, around)
            if isinstance(result, ActionRequest):
                result = await _act(loaded, bound, result, (scope, winner), around)
            log_result(result)
            winner = winner_after(winner, result)
            results.append(result)
    return results


async def _call(
    loaded: ExtensionSet, host: ExtensionHost, bound: PassHandler, data: bytes, around: Reach
) -> EmitResult | ActionRequest:
    one = bound.handler
    declared = loaded.capabilities.get(one.module_name)
    tools = Toolbox(one.module_name, loaded.mode, declared, around.jobs, around.settings)
    try:
        call = HandlerCall(one.module_name, bound.number, data, one.timeout_ms)
        returned = await host.call(call, tools.use)
    finally:
        tools.is_closed = True
    if returned.fault is not None:
        fault = returned.fault
        return HandlerError(module_name=one.module_name, event_type=one.event_type, error=fault.text, code=fault.code)
    return normalise(returned.value, one.module_name, one.event_type, tools.queued)


async def _act(
    loaded: ExtensionSet,
    bound: PassHandler,
    request: ActionRequest,
    under: tuple[ActionScope, Winner | None],
    around: Reach,
) -> ActionResult:
    """Return what became of a request for an action."""
    one, (scope, winner) = bound.handler, under
    declared = loaded.capabilities.get(one.module_name)
    outcome = before_execution(request, loaded.mode, declared, winner)
    if outcome is None:
        if is_tolerated(loaded.mode, declared, request.action_type):
            log_undeclared(one.module_name, request.action_type)
        outcome = await _execute(request, scope, one.module_name, around.executor)
    return action_result(request, one, outcome)


async def _execute(
    request: ActionRequest, scope: ActionScope, module_name: str, executor: ActionExecutor | None
) -> ActionOutcome:
    if executor is None:
        return _failed("action_executor_unavailable", "this broker executes no actions")
    try:
        with anyio.fail_after(EXECUTION_S):
            return await executor.execute(request, scope, requested_by=module_name)
    except TimeoutError:
        return _failed("outcome_unknown", f"the action took longer than {EXECUTION_S:g} s")
    except Exception as fault:  # noqa: BLE001  an executor's defect costs this action, not the pass
        _log.exception("action_executor_failed", action=request.action_type)
        return _failed("action_executor_failed", f"{type(fault).__name__}: {fault}"[:1_024])


def _failed(code: str, message: str) -> ActionOutcome:
    return ActionOutcome(status=ActionStatus.FAILED, details={"code": code, "message": message})
