"""The environment of a try: what the flow passes on and sets, and what the try is told.  Pure."""

import json
from collections.abc import Mapping
from typing import Final

from lifebus_contract.flows import FLOW_VARIABLES
from lifebus_supervisor.runtime.limits.signals import signals_json, signals_of
from lifebus_supervisor.runtime.run_state import RunState
from lifebus_transports.processes.spec import passed_on

ALWAYS: Final = ("PATH", "HOME", "LANG", "LC_*", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL")
"""Variables that every step has, where whoever runs it has them."""


def step_environment(state: RunState, step_id: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return all variables of the try that runs.

    Values that a person gave with an answer are in ``LIFEBUS_FLOW_VALUES`` as one JSON object; one whose name is that
    of a variable that the step sets replaces it.  What is left for the try is in ``LIFEBUS_FLOW_SIGNALS`` as JSON, and
    number by number; a number that is not known has no variable.
    """
    step = state.steps[step_id]
    definition, given = step.definition, step.modifications
    passed = passed_on(environ, (*ALWAYS, *definition.passing))
    own = {name: _text(given[name]) if name in given else value for name, value in definition.setting.items()}
    said = {
        "RUN": state.run_id,
        "NAME": state.definition.name,
        "ROOT": state.definition.root,
        "STEP": step_id,
        "TRY": str(step.number),
        "RETRY_COUNT": str(step.retry),
        "MAX_RETRIES": str(definition.max_retries),
    }
    if definition.time_limit_ms is not None:
        said["TIME_LIMIT_MS"] = str(definition.time_limit_ms)
    said |= _signals(state, step_id)
    if given:
        said["VALUES"] = json.dumps(given, ensure_ascii=False)
    return {**passed, **own, **{f"{FLOW_VARIABLES}{name}": value for name, value in said.items()}}


def _signals(state: RunState, step_id: str) -> dict[str, str]:
    """Return what is left for a try when it begins."""
    signals = signals_of(state, step_id, state.steps[step_id].tries[-1].started_at_ms)
    numbers = {
        "CONTEXT_TOKENS_AVAILABLE": signals.context_tokens_available,
        "CONTEXT_TOKENS_USED": signals.context_tokens_used,
        "TIME_REMAINING_MS": signals.time_remaining_ms,
    }
    said = {name: str(value) for name, value in numbers.items() if value is not None}
    is_near = str(signals.is_approaching_limit).lower()
    return {**said, "IS_APPROACHING_LIMIT": is_near, "SIGNALS": signals_json(signals)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
