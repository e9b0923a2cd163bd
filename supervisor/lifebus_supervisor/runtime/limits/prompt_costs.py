"""What a prompt to a harness has cost: by the calls in its session's files, else by the sum that it says at its end."""

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio.to_thread
from msgspec import structs

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.model_calls import CallFiles, ModelCall
from lifebus_adapters.shared.one_shot import OneShotReport, TokenUse
from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_contract import InvalidRequest
from lifebus_contract.runs import CostRecord
from lifebus_supervisor.runtime.limits.prices import all_priced
from lifebus_supervisor.runtime.limits.run_limits import REPORT

_MAX_LINE: Final = 16 * 1_048_576
"""Longest line that is read, in bytes; no harness writes a call into such a line."""

MAX_CALLS: Final = 512
"""Most calls of one try that are recorded one by one."""

_MAX_FILES: Final = 256
"""Most files of one session that are read."""


async def costs_of_prompt(  # noqa: PLR0917  all that names the try and its session
    run_id: str,
    step_id: str,
    number: int,
    since_ms: int,
    session: tuple[str, str],
    report: OneShotReport,
    environment: Mapping[str, str],
) -> tuple[CostRecord, ...]:
    """Return what the prompt of a try has cost; `session` is its (adapter, session), empty where it is unknown.

    `environment` is that of the harness, which says where its files are.  Calls that were made before `since_ms` are
    those of a session that it goes on from.
    """
    adapter_id, session_id = session
    calls = await anyio.to_thread.run_sync(partial(find_calls, adapter_id, session_id, environment))
    earlier, records = (
        _newest([_record_of(call, run_id, step_id, adapter_id) for call in calls if call.is_before(since_ms) is before])
        for before in (True, False)
    )
    # By the try and not by the session: several tries may go on with one, and each has its own part of it.
    key = f"{REPORT}{adapter_id}:{step_id}#{number}"
    said = _record_of_report(_own_part(report, earlier), run_id, step_id, key[:256])
    if said is not None and sum(map(_tokens, records)) < _tokens(said):
        records = [said]  # the files do not show all that the harness has counted
    priced = await all_priced(records, since_ms)
    if said is not None and said.cost_micros is not None and any(one.cost_micros is None for one in priced):
        return (said,)  # its own estimate is better than none
    return _bounded(priced, key)


def find_calls(adapter_id: str, session_id: str, environment: Mapping[str, str]) -> list[ModelCall]:
    """Return the calls of a session, as often as they are logged, by its harness's files; blocks."""
    harness = ADAPTERS.get(adapter_id)
    files = None if harness is None else harness.call_files
    if files is None or not session_id or "/" in session_id:
        return []
    calls: list[ModelCall] = []
    for path in _paths(files, session_id, environment):
        calls += _read(files, path)
    return calls


def _paths(files: CallFiles, session_id: str, environment: Mapping[str, str]) -> list[Path]:
    surroundings = Surroundings(home=environment.get("HOME", "/nonexistent"), environ=environment)
    roots = [Path(one) for one in files.roots(surroundings)]
    patterns = files.patterns(glob.escape(session_id))
    # Links are not followed: a path in another's folder may lead anywhere.
    found = [path for pattern in patterns for root in roots for path in sorted(root.glob(pattern))]
    return [path for path in found if path.is_file() and not path.is_symlink()][-_MAX_FILES:]


def _read(files: CallFiles, path: Path) -> Iterator[ModelCall]:
    reader = files.make_reader()
    try:
        with open(path, "rb", opener=_open_plainly) as lines:
            while line := lines.readline(_MAX_LINE):
                try:
                    yield from reader.read(line)
                except InvalidRequest:
                    continue  # a torn last line, or a form that this version does not know
    except OSError:
        return


def _open_plainly(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _record_of(call: ModelCall, run_id: str, step_id: str, adapter_id: str) -> CostRecord:
    return CostRecord(
        run_id=run_id,
        step_id=step_id,
        key=f"{adapter_id}:{call.key}"[:256],
        model=call.model,
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        cache_read_tokens=call.cache_read_tokens,
        cache_write_tokens=call.cache_write_tokens,
    )


def _own_part(report: OneShotReport, earlier: Sequence[CostRecord]) -> OneShotReport:
    """Return a report without the tokens of the calls that were made before its prompt, where those are in its sums."""
    tokens = report.tokens
    if tokens is None or not report.is_session_sum:
        return report
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    own = {name: max(0, getattr(tokens, name) - sum(getattr(one, name) for one in earlier)) for name in names}
    return structs.replace(report, tokens=TokenUse(**own))


def _record_of_report(report: OneShotReport, run_id: str, step_id: str, key: str) -> CostRecord | None:
    """Return what a harness says of a whole prompt; None where it says nothing, or nothing that adds up."""
    tokens = report.tokens
    if tokens is None or tokens.cache_read_tokens + tokens.cache_write_tokens > tokens.input_tokens:
        return None
    if not tokens.input_tokens + tokens.output_tokens:
        return None
    return CostRecord(
        run_id=run_id,
        step_id=step_id,
        key=key,
        model=report.model,
        input_tokens=tokens.input_tokens,
        output_tokens=tokens.output_tokens,
        cache_read_tokens=tokens.cache_read_tokens,
        cache_write_tokens=tokens.cache_write_tokens,
        calls=report.calls or 1,  # a sum has at least one
        cost_micros=report.cost_micros or None,  # harnesses say 0 where they know no price
    )


def _bounded(records: tuple[CostRecord, ...], key: str) -> tuple[CostRecord, ...]:
    """Return records, of very many the oldest as one sum for each model, and those without a price apart."""
    if len(records) <= MAX_CALLS:
        return records
    sums: dict[tuple[str | None, bool], CostRecord] = {}
    for one in records[:-MAX_CALLS]:
        kind = (one.model, one.cost_micros is None)
        named = structs.replace(one, key=f"{key}:{'unpriced' if kind[1] else 'priced'}:{one.model}"[:256])
        sums[kind] = named if kind not in sums else _sum_of(sums[kind], named)
    return (*sums.values(), *records[-MAX_CALLS:])


def _sum_of(first: CostRecord, second: CostRecord) -> CostRecord:
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "calls")
    sums = {name: getattr(first, name) + getattr(second, name) for name in names}
    micros = None if first.cost_micros is None else first.cost_micros + (second.cost_micros or 0)
    return structs.replace(first, cost_micros=micros, **sums)


def _newest(records: Sequence[CostRecord]) -> list[CostRecord]:
    return list({one.key: one for one in records}.values())


def _tokens(record: CostRecord) -> int:
    return record.input_tokens + record.output_tokens
