"""The tables of a flow file as users write them (docs/flows.md, "The flow file").  Pure.

A value's `description` is what a user is told when something else stands there.
"""

from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

MAX_PHASES: Final = 256

Duration = Annotated[
    str,
    Meta(
        pattern=r"^\d{1,9}(\.\d{1,6})?(ms|s|m|h|d)$(?!\n)",
        description='a duration in quotes: "500ms", "30s", "10m", "2h" or "1d"',
    ),
]
Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$(?!\n)",
        description="a name of letters, digits, `_`, `-` and `.`, at most 64, that begins with a letter or digit",
    ),
]
Label = Annotated[str, Meta(min_length=1, max_length=256, description="a text of 1 to 256 characters")]
Line = Annotated[str, Meta(min_length=1, max_length=1_024, description="a text of 1 to 1,024 characters")]
Text = Annotated[str, Meta(min_length=1, max_length=65_536, description="a text of 1 to 65,536 characters")]
Path = Annotated[
    str, Meta(min_length=1, max_length=4_096, pattern=r"^[^\x00-\x1f]+$(?!\n)", description="a path in quotes")
]
Names = Annotated[tuple[Name, ...], Meta(max_length=MAX_PHASES, description='a list of phases: ["build", "test"]')]
Words = Annotated[
    tuple[str, ...],
    Meta(min_length=1, max_length=1_024, description='a program and its arguments as a list: ["make", "build"]'),
]
Arguments = Annotated[tuple[str, ...], Meta(max_length=256, description='a list of texts: ["--verbose"]')]
Paths = Annotated[tuple[Path, ...], Meta(max_length=256, description='a list of paths: ["dist/app.tar"]')]
Lines = Annotated[tuple[Line, ...], Meta(max_length=16, description="a list of at most 16 texts")]
Passed = Annotated[
    tuple[
        Annotated[
            str,
            Meta(
                pattern=r"^[A-Za-z_][A-Za-z0-9_]*\*?$(?!\n)|^\*$(?!\n)",
                description="the name of a variable, with `*` at its end for any ending",
            ),
        ],
        ...,
    ],
    Meta(max_length=256, description='a list of variables: ["HOME", "CI_*"]'),
]
Variables = Annotated[
    dict[
        Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)", description="the name of a variable")],
        str,
    ],
    Meta(max_length=256, description='variables and their texts: { CI = "1" }'),
]
Percent = Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100")]
Money = Annotated[int | Decimal, Meta(description="an amount of US dollars above 0, to a millionth at most: 2.50")]
Verdict = Literal["proceed", "retry", "escalate", "alert"]
Codes = Annotated[str | dict[str, Any], Meta(description='a table of codes, or the name of one: "loa" or "make"')]
Metadata = Annotated[dict[str, Any], Meta(max_length=64, description="a table of at most 64 keys")]


def _count(least: int, most: int) -> Meta:
    return Meta(ge=least, le=most, description=f"a whole number from {least:,} to {most:,}")


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class PauseTable(_Table, frozen=True, kw_only=True):
    """`pause`: how long to wait before a retry."""

    first: Duration | None = None
    longest: Duration | None = None
    jitter_percent: Annotated[int, _count(0, 100)] | None = None


class LimitsTable(_Table, frozen=True, kw_only=True):
    """`limits`: what the processes of a phase may take."""

    memory_mb: Annotated[int, _count(16, 16_777_216)] | None = None
    cpu_s: Annotated[int, _count(1, 31_536_000)] | None = None
    open_files: Annotated[int, _count(16, 1_048_576)] | None = None
    processes: Annotated[int, _count(1, 1_048_576)] | None = None
    file_mb: Annotated[int, _count(1, 16_777_216)] | None = None
    output_kb: Annotated[int, _count(1, 1_048_576)] | None = None


class ModifiableTable(_Table, frozen=True, kw_only=True):
    """One of `modifiable`: a value that an answer may change."""

    name: Name
    kind: Literal["text", "integer", "truth", "list", "any"] = "text"
    choices: Annotated[tuple[Any, ...], Meta(max_length=64, description="a list of at most 64 values")] = ()
    help: Label | None = None


class BudgetTable(_Table, frozen=True, kw_only=True):
    """`budget`: what a run may use before a person is asked."""

    time: Duration | None = None
    tokens: Annotated[int, _count(1, 10**15)] | None = None
    cost_usd: Money | None = None


class CommonTable(_Table, frozen=True, kw_only=True):
    """What may stand in a phase, and for all phases in `defaults`."""

    cwd: Path | None = None
    pass_env: Passed | None = None
    env: Variables | None = None
    time_limit: Duration | None = None
    grace: Duration | None = None
    max_retries: Annotated[int, _count(0, 1_000)] | None = None
    pause: PauseTable | None = None
    codes: Codes | None = None
    limits: LimitsTable | None = None
    on_failure: Literal["escalate", "abort", "skip"] | None = None


class DefaultsTable(CommonTable, frozen=True, kw_only=True):
    """`defaults`: what holds for each phase that says nothing else."""


class PhaseTable(CommonTable, frozen=True, kw_only=True):
    """One of `phases`."""

    name: Name
    needs: Names | None = None
    command: Words | None = None
    shell: Text | None = None
    harness: Name | None = None
    prompt: Text | None = None
    prompt_file: Path | None = None
    model: Label | None = None
    arguments: Arguments | None = None
    artifacts: Paths = ()
    approval: Line | None = None
    question: Line | None = None
    suggested_actions: Lines = ()
    modifiable: Annotated[
        tuple[ModifiableTable, ...], Meta(max_length=64, description="a list of tables: [[phases.modifiable]]")
    ] = ()
    metadata: Metadata = {}


class FlowTable(_Table, frozen=True, kw_only=True):
    """The whole file."""

    name: Name | None = None
    root: Path = "."
    max_parallel: Annotated[int, _count(1, 64)] = 1
    near_limit_percent: Percent = 80
    context_tokens: Annotated[int, _count(1, 10**12)] | None = None
    codes: Codes | None = None
    budget: BudgetTable = BudgetTable()
    defaults: DefaultsTable = DefaultsTable()
    phases: Annotated[
        tuple[PhaseTable, ...],
        Meta(min_length=1, max_length=MAX_PHASES, description="a list of at least one table: [[phases]]"),
    ]
    metadata: Metadata = {}


SYNONYMS: Final = {
    "cmd": "command",
    "argv": "command",
    "exec": "command",
    "run": "shell",
    "script": "shell",
    "sh": "shell",
    "args": "arguments",
    "adapter": "harness",
    "adapter_id": "harness",
    "agent": "harness",
    "id": "name",
    "step_id": "name",
    "phase": "phases",
    "step": "phases",
    "steps": "phases",
    "jobs": "phases",
    "tasks": "phases",
    "default": "defaults",
    "depends": "needs",
    "depends_on": "needs",
    "requires": "needs",
    "after": "needs",
    "dir": "cwd",
    "workdir": "cwd",
    "directory": "cwd",
    "working_directory": "cwd",
    "environment": "env",
    "variables": "env",
    "setting": "env",
    "passing": "pass_env",
    "passenv": "pass_env",
    "allow_env": "pass_env",
    "timeout": "time_limit",
    "time_limit_ms": "time_limit",
    "timeout_s": "time_limit",
    "grace_ms": "grace",
    "kill_after": "grace",
    "retries": "max_retries",
    "retry": "max_retries",
    "backoff": "pause",
    "exit_codes": "codes",
    "code_map": "codes",
    "outputs": "artifacts",
    "produces": "artifacts",
    "on_error": "on_failure",
    "ask": "question",
    "approve": "approval",
    "confirm": "approval",
    "parallel": "max_parallel",
    "concurrency": "max_parallel",
    "jobs_at_once": "max_parallel",
    "cost": "cost_usd",
    "usd": "cost_usd",
    "memory": "memory_mb",
    "cpu": "cpu_s",
}
"""Words that other programs have for our keys."""
