"""One run in a broker of this process whose clock stands still until a test moves it."""

import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from lifebus_broker.ports import Query
from lifebus_contract import LifecycleEvent
from lifebus_contract.codec import decode_receipt
from lifebus_contract.flows import FlowDefinition
from lifebus_contract.questions import AnswerAction, QuestionAnswer, QuestionInfo
from lifebus_contract.receipt import Receipt
from lifebus_contract.runs import ContextSignals, CostRecord
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.runtime.clocks import Clocks
from lifebus_supervisor.runtime.run_state import RunState
from lifebus_supervisor.runtime.run_table import RunTable
from lifebus_supervisor.supervision.monitor.process import ProcessState
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_transports.processes.identity import identify
from support.flows import ScriptedRunner, until, use_runner
from support.integration.following import until as until_true
from support.parts import flows_of
from support.running import running_bus

START_MS = 1_790_000_000_000


@dataclass
class Scene:
    """A broker whose clock stands still until a test moves it, with one run."""

    daemon: Daemon
    runs: RunTable
    runner: ScriptedRunner
    times: list[int]
    run_id: str = ""
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list["subprocess.Popen[bytes]"])

    async def submit(self, definition: FlowDefinition) -> None:
        self.run_id = (await self.runs.submit(definition, by="me")).run_id

    def pass_ms(self, passed: int) -> None:
        """Move the clock, and have the run looked at as its timer would."""
        self.times[0] += passed
        run = next(one for one in self.runs.runs() if one.run_id == self.run_id)
        self.runs.engine.advance(run)

    async def cost(self, tokens: int, step_id: str = "a", **fields: Any) -> None:
        await self.runs.accounts.cost(CostRecord(run_id=self.run_id, step_id=step_id, input_tokens=tokens, **fields))

    async def signals(self, step_id: str = "a") -> ContextSignals:
        return await self.runs.accounts.signals(self.run_id, step_id)

    async def question(self) -> QuestionInfo:
        info = await until(self.runs, self.run_id, lambda info: info.question_id is not None)
        found = flows_of(self.daemon).inbox.get(info.question_id or "")
        assert found is not None
        return found

    async def answer(self, action: AnswerAction, **fields: Any) -> None:
        question = await self.question()
        said = QuestionAnswer(action=action, responder="ann", responded_at_ms=self.times[0], **fields)
        await flows_of(self.daemon).inbox.answer(question.question.question_id, said)
        asked = question.question.question_id
        await until(self.runs, self.run_id, lambda info: info.question_id != asked)

    def harness_of_try(self, session: str, number: int, step_id: str = "a") -> SessionMonitor:
        """Return a session of which a process has the environment of a try, as the harness has that it runs."""
        told = {"RUN": self.run_id, "STEP": step_id, "TRY": str(number)}
        environment = {f"LIFEBUS_FLOW_{name}": value for name, value in told.items()}
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert process.stdin is not None
        assert process.stdout is not None
        # The environment of a program that has just been put in place may not be there yet; of one that answers it is.
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        self.processes.append(process)
        monitor = self.daemon.supervisor.monitors.open(("claude", session))
        # The very process: after ticks that are far apart, on a slow machine, another one would count as gone.
        monitor.process = ProcessState(harness=identify(process.pid))
        return monitor

    async def settled(self) -> RunState:
        """Return the state once all that was put in is recorded and every receipt is there."""
        run = next(one for one in self.runs.runs() if one.run_id == self.run_id)
        await until_true(
            lambda: not run.is_writing and not run.inputs and run.receipts is not None and not run.receipts.waiting
        )
        return run.state

    async def pressures(self) -> list[Receipt]:
        """Return the receipts of crossings."""
        await self.settled()
        page = await self.daemon.bus.ledger.read(Query(session=("flow", self.run_id), limit=1_000))
        found = [decode_receipt(one.receipt) for one in page.stored]
        return [one for one in found if one.event is LifecycleEvent.CONTEXT_PRESSURE_OBSERVED]


@asynccontextmanager
async def scene(*codes: str, **given: list[int]) -> AsyncGenerator[Scene]:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({**{name: [0] for name in codes}, **given})
        runs = use_runner(daemon, runner)
        times = [START_MS]
        runs.engine.clocks = Clocks(lambda: times[0], lambda: 0.0)
        made = Scene(daemon, runs, runner, times)
        try:
            yield made
        finally:
            for process in made.processes:
                process.communicate()
