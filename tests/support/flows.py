"""Flows for tests, a runner that ends tries as a test says, and a table of runs in a broker of this process."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from lifebus_broker.ports import Query
from lifebus_contract.codec import decode_receipt
from lifebus_contract.flows import (
    CodeMap,
    CodeRule,
    FlowDefinition,
    Outcome,
    OutcomeKind,
    RetryPause,
    StepDefinition,
    StepVerdict,
)
from lifebus_contract.questions import AnswerAction, QuestionAnswer
from lifebus_contract.receipt import Receipt
from lifebus_contract.runs import RunInfo, RunStatus, StepStatus
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.runtime.rules.decisions import ObservedEnd
from lifebus_supervisor.runtime.run_state import RunState
from lifebus_supervisor.runtime.run_table import RunTable
from support.integration.following import until as until_true
from support.parts import flows_of
from support.patience import PATIENCE_S
from support.running import until_answered

CODES = CodeMap(
    rules=(
        CodeRule(first=0, last=0, verdict=StepVerdict.PROCEED),
        CodeRule(first=1, last=1, verdict=StepVerdict.RETRY),
        CodeRule(first=2, last=2, verdict=StepVerdict.ESCALATE, label="BLOCKED"),
        CodeRule(first=64, last=78, verdict=StepVerdict.RETRY, label="SYSEXITS"),
        CodeRule(first=126, last=127, verdict=StepVerdict.ALERT),
    )
)
"""The rules that most tests use."""

AT_ONCE = RetryPause(first_ms=0, longest_ms=0, jitter_percent=0)
"""No pause before a retry."""


def step(name: str, *needs: str, **fields: Any) -> StepDefinition:
    """A step that runs `true`, retried without a pause."""
    given: dict[str, Any] = {"step_id": name, "needs": needs, "command": ("true",), "pause": AT_ONCE}
    return StepDefinition(**given | fields)


def flow(root: Path | str, *steps: StepDefinition, **fields: Any) -> FlowDefinition:
    """A flow of these steps."""
    given: dict[str, Any] = {"name": "test", "client_id": "test", "root": str(root), "steps": steps, "codes": CODES}
    return FlowDefinition(**given | fields)


def five_steps(root: Path) -> FlowDefinition:
    """Five steps, each a line in the file ``world`` when it begins and when it has ended.

    The second one fails once, the third one is blocked until there is a file ``c.answered``, the last two run beside
    each other.
    """

    def shell(name: str, before_end: str = "") -> tuple[str, ...]:
        said = f"echo begin {name} >> world; {before_end} echo end {name} >> world"
        return ("/bin/sh", "-ec", said)

    once = "if mkdir b.seen 2> /dev/null; then exit 1; fi;"
    until_answered = "if [ ! -e c.answered ]; then exit 2; fi;"
    steps = (
        step("a", command=shell("a")),
        step("b", "a", command=shell("b", once)),
        step("c", "b", command=shell("c", until_answered)),
        step("d", "c", command=shell("d")),
        step("e", "c", command=shell("e")),
    )
    return flow(root, *steps, max_parallel=2, name="five")


def exited(code: int) -> Outcome:
    """A process that ended with a code."""
    return Outcome(kind=OutcomeKind.EXITED, code=code)


class ScriptedRunner:
    """Ends tries with the codes that a test gives; a step without any is held until `end` or its cancellation.

    `begun` has every try in the order in which they began; `running` those that run now.
    """

    def __init__(self, codes: Mapping[str, Sequence[int]] | None = None) -> None:
        self.codes = {name: list(given) for name, given in (codes or {}).items()}
        self.begun: list[tuple[str, int]] = []
        self.running: dict[str, Callable[[Outcome], None]] = {}
        self.most = 0
        self._changed = anyio.Event()

    is_finishing = False

    async def run(self, state: RunState, step_id: str, cancelled: anyio.Event) -> ObservedEnd:
        """End the try as the test says."""
        self.begun.append((step_id, state.steps[step_id].number))
        ends: list[Outcome] = []
        done = anyio.Event()

        def end(outcome: Outcome) -> None:
            ends.append(outcome)
            done.set()

        self.running[step_id] = end
        self.most = max(self.most, len(self.running))
        self._notify()
        try:
            await self._wait(step_id, cancelled, end, done)
        finally:
            # other runs may have a step of that name, and so has the next broker, whose try is another one
            if self.running.get(step_id) is end:
                del self.running[step_id]
        return ObservedEnd(outcome=ends[0], duration_ms=1)

    async def _wait(
        self, step_id: str, cancelled: anyio.Event, end: Callable[[Outcome], None], done: anyio.Event
    ) -> None:
        if self.codes.get(step_id):
            await anyio.lowlevel.checkpoint()
            end(exited(self.codes[step_id].pop(0)))
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._abort, cancelled, end)
            await done.wait()
            tasks.cancel_scope.cancel()

    async def wait_for(self, *names: str) -> None:
        """Wait until these steps run."""
        with anyio.fail_after(PATIENCE_S):
            while not set(names) <= set(self.running):
                await self._changed.wait()

    async def end(self, name: str, outcome: Outcome) -> None:
        """End the try of a step that runs, or is about to."""
        await self.wait_for(name)
        self.running[name](outcome)

    @staticmethod
    async def _abort(cancelled: anyio.Event, end: Callable[[Outcome], None]) -> None:
        await cancelled.wait()
        end(Outcome(kind=OutcomeKind.ABORTED))

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


async def until(runs: RunTable, run_id: str, what: Callable[[RunInfo], bool]) -> RunInfo:
    """Wait until a run stands so."""
    with anyio.fail_after(PATIENCE_S):
        info = runs.info(run_id)
        while not what(info):
            info = await runs.wait(run_id, info.number, PATIENCE_S)
    return info


async def until_over(runs: RunTable, run_id: str) -> RunInfo:
    """Wait until a run is over."""
    return await until(runs, run_id, lambda info: info.status.is_over)


async def until_waiting(runs: RunTable, run_id: str) -> RunInfo:
    """Wait until a run waits for a person."""
    return await until(runs, run_id, lambda info: info.status is RunStatus.WAITING)


def statuses(info: RunInfo) -> dict[str, StepStatus]:
    """How each step stands."""
    return {one.step_id: one.status for one in info.steps}


def use_runner(daemon: Daemon, runner: ScriptedRunner) -> RunTable:
    """Have a broker's runs run by a script, and return their table."""
    flows_of(daemon).runs.engine.runner = runner
    return flows_of(daemon).runs


async def answer(daemon: Daemon, info: RunInfo, action: AnswerAction, **fields: object) -> None:
    """Answer the question of the first step."""
    question_id = info.steps[0].question_id
    assert question_id is not None
    said = {"action": action, "responder": "ann", "responded_at_ms": 5} | fields
    await flows_of(daemon).inbox.answer(question_id, QuestionAnswer(**said))  # type: ignore[arg-type]


async def receipts_of(daemon: Daemon, run_id: str) -> list[Receipt]:
    """Return the receipts of a run once all are there."""
    run = next(one for one in flows_of(daemon).runs.runs() if one.run_id == run_id)
    await until_true(lambda: run.receipts is not None and not run.receipts.waiting)
    page = await daemon.bus.ledger.read(Query(session=("flow", run_id), limit=1_000))
    return [decode_receipt(one.receipt) for one in page.stored]


async def questions_of(daemon: Daemon, run_id: str) -> list[str]:
    """Return what is pending in a run's session, once the state of all of its receipts is known."""
    await receipts_of(daemon, run_id)
    assert daemon.follower is not None
    follower = daemon.follower
    position, state = await until_answered(
        lambda: follower.known(("flow", run_id)), lambda known: known[0] >= daemon.bus.ledger.head
    )
    assert position
    assert state is not None
    return [one.about for one in state.questions]
