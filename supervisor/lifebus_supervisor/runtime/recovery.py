"""Runs after a restart: read from the journal, and gone on with where their records end.

A try without an end was interrupted: it runs again.  An answer that came in between is taken.  The receipts of records
behind the newest note are emitted again, which changes nothing where they are there.
"""

import os
from functools import partial

import anyio.to_thread
import msgspec
import structlog

from lifebus_contract import LifebusError
from lifebus_contract.runs import StepStatus
from lifebus_supervisor.runtime.active_run import ActiveRun, Input
from lifebus_supervisor.runtime.bus.receipts import emissions_of
from lifebus_supervisor.runtime.rules.run_inputs import answered, owner_gone, recovered
from lifebus_supervisor.runtime.rules.run_reducer import reduce_each
from lifebus_supervisor.runtime.run_engine import RunEngine
from lifebus_supervisor.runtime.run_journal import RunJournal
from lifebus_supervisor.runtime.run_records import BROKER, ReceiptsEmitted, RunRecord
from lifebus_supervisor.runtime.run_state import Contradiction, RunState, open_questions
from lifebus_supervisor.runtime.run_table import RunTable

_log = structlog.get_logger("lifebus.runtime")


async def load_runs(table: RunTable, journal: RunJournal) -> None:
    """Read every run; nothing of them begins.  A run whose records cannot be read is left alone, and said.

    Raises:
        LifebusError: the journal cannot be read.
    """
    for run_id in await journal.run_ids():
        try:
            records = await journal.read(run_id)
            states = reduce_each(run_id, records)
        except (msgspec.DecodeError, Contradiction) as fault:
            _log.error("run_unreadable", run_id=run_id, fault=str(fault))
            continue
        root = await anyio.to_thread.run_sync(os.path.realpath, states[-1].definition.root)
        run = ActiveRun(states[-1], root)
        table.engine.prepare(run)
        table.add(run)
        _emit_again(run, states, records)


def _emit_again(run: ActiveRun, states: list[RunState], records: list[RunRecord]) -> None:
    receipts = run.receipts
    if receipts is None:
        return
    for state, record in zip(states, records, strict=True):
        if state.number > run.state.emitted and not isinstance(record, ReceiptsEmitted):
            receipts.add(state.number, emissions_of(state, record))


async def go_on(table: RunTable) -> None:
    """Go on with every run of the broker, and take the answers that came in between."""
    for run in table.runs():
        if run.state.ended is not None:
            await _take_back(table.engine, run)
            continue
        await _take_answers(table.engine, run)
        if run.is_ours:
            await _take_over(table, run)
        else:
            table.engine.advance(run)


async def _take_over(table: RunTable, run: ActiveRun) -> None:
    try:
        await table.hold(run)
    except LifebusError as fault:
        _log.warning("run_not_resumed", run_id=run.run_id, code=fault.code, detail=fault.detail)
        table.engine.put(run, Input(partial(owner_gone, BROKER)))
        return
    table.engine.put(run, Input(recovered))


async def _take_answers(engine: RunEngine, run: ActiveRun) -> None:
    """Take the answers of questions that the run waits for."""
    for question_id in open_questions(run.state):
        info = engine.questions.get(question_id)
        if info is None:
            # Its record and the question are one append: only somebody who deleted it can be the reason.
            _log.error("question_missing", run_id=run.run_id, question_id=question_id)
        elif info.answer is not None:
            run.inputs.append(Input(partial(answered, info)))
        elif not info.is_open:
            _log.warning("question_withdrawn", run_id=run.run_id, question_id=question_id)


async def _take_back(engine: RunEngine, run: ActiveRun) -> None:
    """Withdraw what a run asked that is over."""
    for step in run.state.steps.values():
        if step.status is not StepStatus.ABORTED or step.asked is None:
            continue
        info = engine.questions.get(step.asked)
        if info is not None and info.is_open:
            await engine.take_back(step.asked)
