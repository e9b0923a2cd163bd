"""A fresh child for every dispatch."""

from functools import partial
from typing import Final

from msgspec import structs

from lifebus_contract import CallbackResponse, DispatchEnvelope, encode_json
from lifebus_contract.fields import FactKey, FactValue
from lifebus_transports.processes.once import Commands
from lifebus_transports.processes.outcomes import answer_of, evidence_of
from lifebus_transports.processes.pool import Pool
from lifebus_transports.processes.spec import CommandSpec

TRACEPARENT: Final = "TRACEPARENT"
"""The variable in which a command finds the span of its dispatch."""


class FreshInvoker:
    """Runs a command for each dispatch, `workers` at once; is an `Invoker` of `lifebus_broker.routing` by its shape."""

    def __init__(self, spec: CommandSpec, workers: int, commands: Commands) -> None:
        self._spec = spec
        self._commands = commands
        self._pool: Pool[int] = Pool()
        for slot in range(workers):
            self._pool.release(slot)

    async def invoke(self, envelope: DispatchEnvelope, evidence: dict[FactKey, FactValue]) -> CallbackResponse:
        """Return what a child answers; who calls has a deadline, and cancels at it.

        A child's slot is taken until the child is gone, which may be after that.

        Raises:
            LifebusError: the command misbehaved, or too many dispatches wait for it.
        """
        slot = await self._pool.acquire()
        question = encode_json(envelope) + b"\n"
        # The slot comes back when the child is gone, which may be after the dispatch has ended.
        run = self._commands.start(
            traced(self._spec, envelope), question, bodies_of(envelope), partial(self._pool.release, slot)
        )
        try:
            await run.done.wait()
        finally:
            run.abandon()
            finished = run.finished()
            evidence.update(evidence_of(finished))
        return answer_of(finished)


def traced(spec: CommandSpec, envelope: DispatchEnvelope) -> CommandSpec:
    """Return a command that finds the dispatch's span in its environment, as libraries of OpenTelemetry look for it."""
    if envelope.traceparent is None:
        return spec
    return structs.replace(spec, setting={**spec.setting, TRACEPARENT: envelope.traceparent})


def bodies_of(envelope: DispatchEnvelope) -> list[str]:
    """Return the bodies of a dispatch, which must not stand in what is kept of it."""
    return [payload.body for payload in envelope.payloads if payload.body]
