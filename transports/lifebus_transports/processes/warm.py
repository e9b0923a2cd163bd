"""Workers that stay: started before they are needed, asked one thing at a time each, replaced when they misbehave.

A worker is gone for good when it missed a deadline, wrote nonsense, wrote unasked or twice, or ended.  Where workers
answer nothing from their start to their end, they are not started again at once but after a growing pause.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import anyio
import structlog
from anyio.abc import TaskGroup

from lifebus_contract import CallbackResponse, DispatchEnvelope, InvalidRequest, LifebusError
from lifebus_contract.fields import FactKey, FactValue
from lifebus_transports.processes.child import ChildProcess
from lifebus_transports.processes.fresh import bodies_of
from lifebus_transports.processes.outcomes import Failure, Finished, answer_in, evidence_of, fault_of, spawn_failure
from lifebus_transports.processes.pool import Pool
from lifebus_transports.processes.spec import CommandSpec
from lifebus_transports.processes.worker_framing import WarmProtocol, framing_of

_INPUT_END_S: Final = 0.3
"""How long a worker may take to end once its stdin has, in seconds."""

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
_log = structlog.get_logger("lifebus.commands")


class Worker:
    """One warm process.  `answered` counts; `fault` says why it has to go."""

    def __init__(self, spec: CommandSpec, protocol: WarmProtocol) -> None:
        """Start it.

        Raises:
            OSError: it cannot be started.
            ValueError: an argument or variable holds a NUL character.
        """
        self.answered = 0
        self.fault: LifebusError | None = None
        self._framing = framing_of(protocol)
        self._answer: asyncio.Future[list[Any]] | None = None
        self._bodies: Sequence[str] = ()
        self.child = ChildProcess(spec, self._take)

    async def ask(self, envelope: DispatchEnvelope) -> CallbackResponse:
        """Return the answer to a question.

        Raises:
            LifebusError: it wrote no answer, or ended without one.
        """
        self._answer = asyncio.get_running_loop().create_future()
        self._bodies = bodies_of(envelope)
        # Its complaint about an earlier question is no evidence for this one.
        self.child.errors.clear()
        self.child.send(self._framing.encode(envelope))
        try:
            response = answer_in(await self._answer)
        except asyncio.CancelledError:
            self.fail(fault_of(Finished(failure=Failure.DEADLINE)))
            raise
        except LifebusError as fault:
            self.fail(fault)
            raise
        finally:
            self._answer = None
        self.answered += 1
        return response

    def evidence(self) -> dict[FactKey, FactValue]:
        """Return what was seen of it since it was asked."""
        self.child.drain()
        return evidence_of(self._finished())

    def fail(self, fault: LifebusError) -> None:
        """Have it ended by its owner; the first fault counts."""
        self.fault = self.fault or fault
        self.child.request_end()

    async def end(self) -> None:
        """End it: one that did nothing wrong may end by itself; whoever waits for its answer gets its fault."""
        # Both are read before the drain and the end, which change them.
        by_itself, unread = self.child.exited.is_set(), self.child.unread
        self.child.drain()
        await self.child.end(input_end_s=0.0 if self.fault or by_itself else _INPUT_END_S)
        self.fault = self.fault or self._exit_fault(unread)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(self.fault)

    def _take(self, data: bytes) -> None:
        documents = [] if self.fault else self._framing.feed(data)
        if not documents:
            return
        if self._answer is None or self._answer.done() or self.child.unread > 1:  # the line end may stay
            fault = InvalidRequest("the command wrote what nobody had asked for", code="unasked")
            self.fail(fault)
            if self._answer is not None and not self._answer.done():
                self._answer.set_exception(fault)
        else:
            self._answer.set_result(documents)

    def _finished(self) -> Finished:
        status = self.child.status if self.fault is None or self.fault.code in _OWN_ENDS else None
        return Finished(
            stderr=self.child.redacted_errors(self._bodies),
            exit_code=status if status is not None and status >= 0 else None,
            signal=-status if status is not None and status < 0 else None,
        )

    def _exit_fault(self, unread: int) -> LifebusError:
        """Return what the end of a worker means for who waits for its answer."""
        status = self.child.status
        if status is None or status < 0:
            return fault_of(Finished(failure=Failure.KILLED, signal=-(status or 0)))
        if status > 0:
            return fault_of(Finished(failure=Failure.EXIT_CODE, exit_code=status))
        if unread > 1:
            return fault_of(Finished(failure=Failure.STDIN_IGNORED))
        return InvalidRequest("the command ended without an answer", code="no_answer")


_OWN_ENDS: Final = frozenset({Failure.KILLED, Failure.EXIT_CODE, Failure.STDIN_IGNORED, "no_answer"})
"""Faults whose worker ended by itself, so that its exit code says something."""


class WarmInvoker:
    """Asks a pool of warm workers, which `tasks` owns; is an `Invoker` of `lifebus_broker.routing` by its shape."""

    def __init__(self, spec: CommandSpec, protocol: WarmProtocol, workers: int, tasks: TaskGroup) -> None:
        self._spec = spec
        self._protocol: WarmProtocol = protocol
        self._tasks = tasks
        self._pool: Pool[Worker] = Pool()
        self._alive: set[Worker] = set()
        self._down: LifebusError | None = None
        for _ in range(workers):
            tasks.start_soon(self._supervise)

    async def invoke(self, envelope: DispatchEnvelope, evidence: dict[FactKey, FactValue]) -> CallbackResponse:
        """Return a worker's answer; who calls has a deadline, and cancels at it.

        Raises:
            LifebusError: no worker can be started, too many wait, or the worker misbehaved.
        """
        if self._down is not None and not self._alive:
            # The same error is raised for many callers: without this its traceback would grow with each.
            raise self._down.with_traceback(None)
        worker = await self._pool.acquire()
        try:
            return await worker.ask(envelope)
        finally:
            evidence.update(worker.evidence())
            asyncio.get_running_loop().call_soon(self._release, worker)  # what it writes meanwhile is unasked

    def _release(self, worker: Worker) -> None:
        if not worker.child.ending.is_set():
            worker.child.drain()
        if not worker.child.ending.is_set():
            self._pool.release(worker)

    async def _supervise(self) -> None:
        """Keep one worker alive, for ever: the owner's task of one place in the pool."""
        faults = 0
        while True:
            worker = self._start()
            faults += 1
            if worker is not None:
                await self._until_ending(worker)
                # The first fault may be an accident: no pause, and no wait for the old worker's end.
                if worker.answered or faults == 1:
                    faults = 0 if worker.answered else 1
                    self._tasks.start_soon(self._end_worker, worker)  # its successor need not wait for its end
                    continue
                await self._end_worker(worker)
            # Nobody is left to answer, so that whoever waits fails now and not at its deadline.
            if self._down is not None and not self._alive:
                self._pool.fail_waiting(self._down)
            await anyio.sleep(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** max(0, min(faults, 10) - 2)))

    def _start(self) -> Worker | None:
        try:
            worker = Worker(self._spec, self._protocol)
        except (OSError, ValueError) as fault:
            self._down = fault_of(spawn_failure(fault))
            return None
        self._alive.add(worker)
        self._pool.release(worker)
        return worker

    async def _until_ending(self, worker: Worker) -> None:
        """Wait until a worker has to go; with the owner's end it is ended here."""
        try:
            await worker.child.ending.wait()
        except asyncio.CancelledError:
            await worker.end()
            raise
        finally:
            self._alive.discard(worker)
            self._pool.discard(worker)

    async def _end_worker(self, worker: Worker) -> None:
        await worker.end()
        self._down = worker.fault
        _log.warning("worker_replaced", program=self._spec.argv[0][:128], code=worker.fault and worker.fault.code)
