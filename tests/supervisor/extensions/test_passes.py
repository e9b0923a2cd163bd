"""Passes against a model that is written another way: who is called when, who wins, what is executed."""

from collections.abc import Sequence
from typing import Any

import anyio
import structlog
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from lifebus_contract.capability import TrustMode
from lifebus_contract.extensions import (
    ActionOutcome,
    ActionRequest,
    ActionResult,
    ActionScope,
    ActionStatus,
    ExtensionCapabilities,
    HandlerError,
    HandlerResult,
    RuntimeEvent,
)
from lifebus_supervisor.extensions import passes
from lifebus_supervisor.extensions.extension_set import ExtensionSet, PassHandler
from lifebus_supervisor.extensions.passes import Reach, run_pass
from lifebus_supervisor.extensions.rules.dispatch import Handler, ordered, queue_winner
from lifebus_transports.messages.extensions.host import (
    HandlerCall,
    HandlerReturn,
    LoadedModule,
    ModuleSource,
    ToolFault,
    ToolUser,
)
from support.extensions.queue import MadeUpQueue

NAMES = st.sampled_from(["a", "b", "B", "_x", "10", "9", "a-1", "a1", "é", "z\U0001f600", "z\uffff"])
BEHAVIOURS = st.sampled_from(
    ["performed", "already_resolved", "conflict", "failed", "forbidden", "undeclared", "malformed", "none", "raises"]
)


class Scripted(Struct, frozen=True):
    name: str
    priority: int
    behaviour: str


class ScriptedHost:
    """Answers calls by a script, and remembers them."""

    restarts = 0

    def __init__(self, script: Sequence[Scripted]) -> None:
        self.script, self.called = script, list[int]()

    async def load(self, modules: Sequence[ModuleSource]) -> list[LoadedModule]:
        raise NotImplementedError

    async def aclose(self) -> None:
        return

    async def call(self, call: HandlerCall, use_tool: ToolUser) -> HandlerReturn:
        self.called.append(call.handler)
        behaviour = self.script[call.handler].behaviour
        match behaviour:
            case "none":
                return HandlerReturn(None)
            case "raises":
                return HandlerReturn(fault=ToolFault("handler_failed", "so"))
            case "malformed":
                return HandlerReturn({"kind": "action_request"})
            case _:
                action = "no" if behaviour == "undeclared" else behaviour
                number = str(call.handler)
                return HandlerReturn(
                    {"kind": "action_request", "actionType": action, "payload": {}, "requestId": number}
                )


class ScriptedExecutor:
    """Does what the type of an action says, and remembers it."""

    def __init__(self) -> None:
        self.executed: list[str | None] = []

    async def execute(self, request: ActionRequest, scope: ActionScope, *, requested_by: str) -> ActionOutcome:
        self.executed.append(request.request_id)
        return ActionOutcome(status=ActionStatus(request.action_type))


def loaded(script: Sequence[Scripted], host: ScriptedHost, mode: TrustMode = TrustMode.ENFORCED) -> ExtensionSet:
    handlers = [
        Handler(module_name=one.name, event_type="e", priority=one.priority, index=index)
        for index, one in enumerate(script)
    ]
    declared = ExtensionCapabilities(actions=tuple(status.value for status in ActionStatus))
    return ExtensionSet(
        "v",
        "t",
        mode,
        capabilities={one.name: declared for one in script},
        handlers={"e": [PassHandler(one, one.index) for one in ordered(handlers)]},
        host=host,
    )


EVENT = RuntimeEvent(type="e", payload={}, emitted_at="t")


def expected_order(script: Sequence[Scripted]) -> list[int]:
    """The order of a pass, found by comparing every pair."""

    def before(one: int, other: int) -> bool:
        a, b = script[one], script[other]
        if a.priority != b.priority:
            return a.priority < b.priority
        if a.name != b.name:
            # Code points are what UTF-32 writes down.
            return a.name.encode("utf-32-be") < b.name.encode("utf-32-be")
        return one < other

    numbers = range(len(script))
    places = {sum(before(other, one) for other in numbers): one for one in numbers}
    return [places[place] for place in numbers]


def expected_results(script: Sequence[Scripted], order: Sequence[int]) -> tuple[list[str], list[str]]:
    """What comes of each call, and which requests are executed."""
    results, executed = list[str](), list[str]()
    won = False
    for number in order:
        match script[number].behaviour:
            case "none":
                results.append("handler_result")
            case "raises":
                results.append("handler_error")
            case "malformed":
                results.append("invalid")
            case "undeclared":
                results.append("forbidden")
            case _ if won:
                results.append("not_eligible")
            case behaviour:
                results.append(behaviour)
                executed.append(str(number))
                won = behaviour == "performed"
    return results, executed


def shown(result: object) -> str:
    match result:
        case ActionResult():
            return result.status.value
        case HandlerError():
            return "handler_error"
        case HandlerResult():
            return "handler_result"
        case _:
            return "enqueue_result"


@given(st.lists(st.builds(Scripted, NAMES, st.integers(-3, 3), BEHAVIOURS), max_size=12))
def test_a_pass_calls_in_order_and_executes_up_to_the_first_that_is_performed(script: list[Scripted]) -> None:
    host, executor = ScriptedHost(script), ScriptedExecutor()
    results = anyio.run(run_pass, loaded(script, host), EVENT, Reach(executor=executor))
    order = expected_order(script)
    assert host.called == order
    names = [one.module_name for one in results]
    assert names == [script[number].name for number in order]
    assert ([shown(one) for one in results], executor.executed) == expected_results(script, order)


async def test_a_request_is_undeclared_before_it_is_too_late() -> None:
    script = [Scripted("a", 1, "performed"), Scripted("b", 2, "undeclared"), Scripted("c", 3, "failed")]
    results = await run_pass(loaded(script, ScriptedHost(script)), EVENT, Reach(executor=ScriptedExecutor()))
    codes = [(one.details or {}).get("code") for one in results if isinstance(one, ActionResult)]
    assert codes == [None, "undeclared_capability", "action_winner_already_selected"]
    late = results[2]
    assert isinstance(late, ActionResult)
    assert late.details == {
        "code": "action_winner_already_selected",
        "winnerModuleName": "a",
        "winnerActionType": "performed",
    }


async def test_without_an_executor_an_action_fails_and_says_so() -> None:
    script = [Scripted("a", 1, "performed")]
    (result,) = await run_pass(loaded(script, ScriptedHost(script)), EVENT, Reach())
    assert isinstance(result, ActionResult)
    assert (result.status.value, (result.details or {})["code"]) == ("failed", "action_executor_unavailable")


async def test_an_executor_that_fails_or_never_ends_costs_its_action_alone(monkeypatch: Any) -> None:
    class Faulty:
        async def execute(self, request: ActionRequest, scope: ActionScope, *, requested_by: str) -> ActionOutcome:
            if request.action_type == "conflict":
                raise RuntimeError("a defect")
            await anyio.Event().wait()
            raise AssertionError

    monkeypatch.setattr(passes, "EXECUTION_S", 0.02)
    script = [Scripted("a", 1, "conflict"), Scripted("b", 2, "performed"), Scripted("c", 3, "none")]
    results = await run_pass(loaded(script, ScriptedHost(script)), EVENT, Reach(executor=Faulty()))
    codes = [(one.details or {}).get("code") for one in results if isinstance(one, ActionResult)]
    assert codes == ["action_executor_failed", "outcome_unknown"]
    assert isinstance(results[2], HandlerResult)


class Enqueuer(ScriptedHost):
    """Uses the tool, keeps it, and uses it again when the call is over."""

    async def call(self, call: HandlerCall, use_tool: ToolUser) -> HandlerReturn:
        self.tool = use_tool
        try:
            return HandlerReturn(await use_tool("enqueue_job", {"type": "t", "projectId": "p", "payload": {"a": 1}}))
        except Exception as fault:  # noqa: BLE001  as a host reports it
            return HandlerReturn(fault=ToolFault(getattr(fault, "code", None) or "?", str(fault)))


async def test_a_job_that_a_handler_queues_is_its_result_and_its_tool_closes() -> None:
    script, queue = [Scripted("a", 1, "")], MadeUpQueue()
    host = Enqueuer(script)
    results = await run_pass(loaded(script, host, TrustMode.WARN), EVENT, Reach(jobs=queue))
    won = queue_winner(results)
    assert won is not None
    assert (won.module_name, won.job.id, won.status.value) == ("a", "j1", "enqueued")
    assert [(job.type, job.payload) for job in queue.queued] == [("t", {"a": 1})]
    try:
        await host.tool("enqueue_job", {"type": "t", "projectId": "p"})
    except Exception as fault:  # noqa: BLE001  its code is what counts
        assert getattr(fault, "code", None) == "tools_closed"  # noqa: PT017
    assert len(queue.queued) == 1


async def test_the_capability_for_jobs_gates_the_tool_as_well() -> None:
    script, queue = [Scripted("a", 1, "")], MadeUpQueue()
    (result,) = await run_pass(loaded(script, Enqueuer(script)), EVENT, Reach(jobs=queue))
    assert isinstance(result, HandlerError)
    assert result.code == "undeclared_capability"
    assert queue.queued == []


def told(logs: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [(one["log_level"], one["event"], one["module"], one.get("action"), one.get("code")) for one in logs]


async def test_where_trust_warns_a_job_that_is_not_declared_is_queued_and_logged() -> None:
    script, queue = [Scripted("a", 1, "")], MadeUpQueue()
    with structlog.testing.capture_logs() as logs:
        await run_pass(loaded(script, Enqueuer(script), TrustMode.WARN), EVENT, Reach(jobs=queue))
        assert len(queue.queued) == 1
        assert told(logs) == [("warning", "action_not_declared", "a", "queue.enqueue", None)]
        logs.clear()
        await run_pass(loaded(script, Enqueuer(script), TrustMode.DISABLED), EVENT, Reach(jobs=queue))
        assert told(logs) == []


class Returning(ScriptedHost):
    """Handlers that return what they were made with."""

    def __init__(self, *values: Any) -> None:
        super().__init__([Scripted("a", number, "") for number, _ in enumerate(values)])
        self.values = values

    async def call(self, call: HandlerCall, use_tool: ToolUser) -> HandlerReturn:
        return HandlerReturn(self.values[call.handler])


def asked(action: str) -> dict[str, Any]:
    return {"kind": "action_request", "actionType": action, "payload": {}}


async def test_what_a_handler_got_wrong_and_what_was_not_done_for_it_is_logged() -> None:
    host = Returning(
        {"kind": "handler_result", "moduleName": "other"},
        {"kind": "nonsense"},
        {"kind": "action_request"},
        asked("no"),
        asked("failed"),
        asked("performed"),
        asked("performed"),
        None,
        "a value",
    )
    with structlog.testing.capture_logs() as logs:
        await run_pass(loaded(host.script, host), EVENT, Reach(executor=ScriptedExecutor()))
    assert told(logs) == [
        ("warning", "handler_failed", "a", None, "forged_module_name"),
        ("warning", "handler_failed", "a", None, "unknown_result_kind"),
        ("warning", "action_not_performed", "a", "", "malformed_action_request"),
        ("warning", "action_not_performed", "a", "no", "undeclared_capability"),
        ("warning", "action_not_performed", "a", "failed", None),
        ("debug", "action_not_performed", "a", "performed", "action_winner_already_selected"),
    ]
