"""From the tables of a flow file to what is run.  Pure."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, TypeVar

from msgspec import Struct, structs

from lifebus.flows.code_tables import DEFAULT, make_codes, named_codes
from lifebus.flows.durations import duration_ms
from lifebus.flows.plain_data import is_list, is_table, table_of
from lifebus.flows.tables import CommonTable, FlowTable, LimitsTable, ModifiableTable, PauseTable, PhaseTable
from lifebus_contract.flows import (
    Budget,
    CodeMap,
    FlowDefinition,
    HarnessPrompt,
    OnFailure,
    ProcessLimits,
    RetryPause,
    StepDefinition,
)
from lifebus_contract.questions import Modifiable
from lifebus_transports.adapter_names import adapter_id_of

T = TypeVar("T")
Table = TypeVar("Table", bound=Struct)

DEFAULT_PASSED: Final = ("XDG_*", "LIFEBUS_RUNTIME_DIR", "LIFEBUS_STATE_DIR")
"""The variables that are passed on where the file does not say which, beside those that every phase gets."""

_SHELL: Final = ("/bin/sh", "-ec")
"""With -e: a line of several commands has failed as soon as one of them has."""


def compile_flow(
    table: FlowTable, *, name: str, client_id: str, root: str, prompts: Mapping[int, str]
) -> FlowDefinition:
    """Return the flow of a table that is free of faults.

    `name` is for a file that has none, `root` the absolute path of the run's root, `prompts` what the prompt files of
    the phases hold, by the phases' numbers.
    """
    codes = make_codes(table.codes, named_codes(DEFAULT))
    steps = tuple(
        _compile_phase(phase, table, codes, number, prompts.get(number)) for number, phase in enumerate(table.phases)
    )
    return FlowDefinition(
        name=table.name or name,
        client_id=client_id,
        root=root,
        steps=steps,
        codes=codes,
        max_parallel=table.max_parallel,
        budget=Budget(
            time_ms=duration_ms(table.budget.time),
            tokens=table.budget.tokens,
            cost_micros=None if table.budget.cost_usd is None else int(Decimal(table.budget.cost_usd) * 1_000_000),
        ),
        near_limit_percent=table.near_limit_percent,
        context_tokens=table.context_tokens,
        metadata=_plain(table.metadata),
    )


def _compile_phase(
    phase: PhaseTable, table: FlowTable, codes: CodeMap, number: int, text: str | None
) -> StepDefinition:
    common = _merged(phase, table.defaults)
    # A phase without `needs` comes after the one before it: phases in order need not name one another.
    before = (table.phases[number - 1].name,) if number else ()
    return StepDefinition(
        step_id=phase.name,
        needs=before if phase.needs is None else phase.needs,
        command=_command(phase),
        prompt=_prompt(phase, text),
        cwd=common.cwd or ".",
        passing=DEFAULT_PASSED if common.pass_env is None else common.pass_env,
        setting=common.env or {},
        time_limit_ms=duration_ms(common.time_limit),
        grace_ms=_known(duration_ms(common.grace), 5_000),
        max_retries=_known(common.max_retries, 3),
        pause=_pause(common.pause or PauseTable()),
        codes=_codes(phase, table, codes),
        limits=_limits(common.limits or LimitsTable()),
        artifacts=phase.artifacts,
        on_failure=OnFailure(common.on_failure or "escalate"),
        approval=phase.approval,
        question=phase.question,
        suggested_actions=phase.suggested_actions,
        modifiable=tuple(_modifiable(one) for one in phase.modifiable),
        metadata=_plain(phase.metadata),
    )


def _merged(phase: PhaseTable, defaults: CommonTable) -> CommonTable:
    """Return what holds for a phase: its own words, else those of `defaults`, tables key by key."""
    found: dict[str, Any] = {}
    for name in CommonTable.__struct_fields__:
        own, general = getattr(phase, name), getattr(defaults, name)
        if isinstance(own, Struct) and isinstance(general, Struct):
            found[name] = _filled(own, general)
        elif name == "env" and own is not None and general is not None:
            found[name] = {**table_of(general), **table_of(own)}
        else:
            found[name] = general if own is None else own
    return CommonTable(**found)


def _filled(own: Table, general: Struct) -> Table:
    missing = {name: getattr(general, name) for name in own.__struct_fields__ if getattr(own, name) is None}
    return structs.replace(own, **missing)


def _command(phase: PhaseTable) -> tuple[str, ...] | None:
    return (*_SHELL, phase.shell) if phase.shell is not None else phase.command


def _prompt(phase: PhaseTable, text: str | None) -> HarnessPrompt | None:
    words = phase.prompt if phase.prompt is not None else text
    if words is None or phase.harness is None:
        return None
    return HarnessPrompt(
        adapter_id=adapter_id_of(phase.harness), text=words, model=phase.model, arguments=phase.arguments or ()
    )


def _modifiable(table: ModifiableTable) -> Modifiable:
    choices = tuple(_plain(choice) for choice in table.choices)
    return Modifiable(name=table.name, kind=table.kind, choices=choices, help=table.help)


def _codes(phase: PhaseTable, table: FlowTable, codes: CodeMap) -> CodeMap | None:
    """Return the whole map of a phase, so that nobody has to put two together; None where it is the flow's."""
    own = phase.codes if phase.codes is not None else table.defaults.codes
    return None if own is None else make_codes(own, codes)


def _pause(table: PauseTable) -> RetryPause:
    usual = RetryPause()
    first = _known(duration_ms(table.first), usual.first_ms)
    return RetryPause(
        first_ms=first,
        # A first pause that is longer than the usual longest one is meant as it stands.
        longest_ms=_known(duration_ms(table.longest), max(first, usual.longest_ms)),
        jitter_percent=_known(table.jitter_percent, usual.jitter_percent),
    )


def _limits(table: LimitsTable) -> ProcessLimits:
    return ProcessLimits(**{name: value for name, value in structs.asdict(table).items() if value is not None})


def _known(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value


def _plain(value: Any) -> Any:
    """Return data as JSON has it: fractions as the numbers that they are nearest to."""
    if isinstance(value, Decimal):
        return float(value)
    if is_table(value):
        return {key: _plain(inner) for key, inner in value.items()}
    if is_list(value):
        return [_plain(inner) for inner in value]
    return value
