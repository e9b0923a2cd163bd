"""The small facts in a harness's telemetry, and where a harness leaves it, as data.  Pure.

A source is a kind of file that a harness writes: a session log, a chat file, a database.  Whoever watches files frames
them into records (lines, JSON objects, database rows) and hands each record to a reader made for that file; the reader
returns facts.  Prompts, answers and tool data never become facts.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from lifebus_contract.fields import FactValue

HOOK_SOURCE: Final = "hook"
"""The source id of facts that a hook's own payload carried."""


class Usage(Struct, frozen=True, kw_only=True, tag=True):
    """How full a session's context was: numerator and denominator, each with where it came from (docs/contract.md 2.5).

    `window_tokens` is None where it is not known; then there is no percentage.  `used_source` and `window_source`
    are short stable words such as ``rollout:last_token_usage.total_tokens`` or ``override:LIFEBUS_CLAUDE_…``.
    """

    session: str
    used_tokens: int
    used_source: str
    window_tokens: int | None = None
    window_source: str | None = None
    model: str | None = None


class WindowKnown(Struct, frozen=True, kw_only=True, tag=True):
    """How large a session's context window is, where the usage is not known with it; `window_source` as in `Usage`."""

    session: str
    window_tokens: int
    window_source: str


class Compacted(Struct, frozen=True, kw_only=True, tag=True):
    """Proof that a session's context was rewritten; `key` is stable and unique within the session."""

    session: str
    key: str
    trigger: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None


class TurnStarted(Struct, frozen=True, kw_only=True, tag=True):
    """A turn began; `frame_id` is the id the harness's hooks use for it, None where the file does not name it.

    One that is `compacting` was begun to rewrite the context, and no hook of a prompt reports it.  `reports_end` says
    that the same file shows the turn's end as well, however it ends, unless the harness is killed.
    """

    session: str
    frame_id: str | None = None
    compacting: bool = False
    reports_end: bool = False


class TurnEnded(Struct, frozen=True, kw_only=True, tag=True):
    """A turn ended: ``completed``, ``failed``, ``interrupted``, or ``blocked`` where a hook refused its prompt.

    `evidence` says in a few words what shows it.  `details` are more facts for its receipt: of a failure, its kind and
    classes.
    """

    session: str
    frame_id: str | None = None
    frame_end: str = "completed"
    evidence: str = ""
    details: dict[str, FactValue] = {}


class TurnContinued(Struct, frozen=True, kw_only=True, tag=True):
    """A turn goes on after its stop, once for each such stop; `frame_id` as in `TurnStarted`.

    Where the stop was `unannounced` by hooks, only the file's own word that the turn had ended is taken back.
    """

    session: str
    frame_id: str | None = None
    unannounced: bool = False


class SessionClosed(Struct, frozen=True, kw_only=True, tag=True):
    """The harness's own record that it has let the session go; `evidence` says in a few words what shows it."""

    session: str
    evidence: str


class ToolsDone(Struct, frozen=True, kw_only=True, tag=True):
    """At `at_ms`, in milliseconds since 1970, the last tool call of a session that was without its result got it.

    What a tool of the session itself was to be permitted is settled then: a refusal is a result as well.
    """

    session: str
    at_ms: int


class Whereabouts(Struct, frozen=True, kw_only=True, tag=True):
    """Where a session works and what its harness calls it; None where the file does not say it.

    `cwd` is the directory in which it began.  One that is `at_start` says how all of it was then: what anybody has said
    since counts more.
    """

    session: str
    cwd: str | None = None
    git_branch: str | None = None
    title: str | None = None
    at_start: bool = False


class Activity(Struct, frozen=True, kw_only=True, tag=True):
    """The model or a tool did something: a sign of life, nothing more."""

    session: str


Fact = (
    Usage
    | WindowKnown
    | Compacted
    | TurnStarted
    | TurnContinued
    | TurnEnded
    | SessionClosed
    | ToolsDone
    | Whereabouts
    | Activity
)
"""Every fact that telemetry can hold."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """What decides where a harness keeps its files: the user's home, and the environment with its overrides."""

    home: str
    environ: Mapping[str, str]

    def first(self, *names: str) -> tuple[str, str] | None:
        """Return the name and value of the first of the variables that is set and not empty."""
        # An empty variable counts as unset.
        return next(((name, self.environ[name]) for name in names if self.environ.get(name)), None)


class RecordReader(Protocol):
    """A plain state machine over the records of one file, oldest first."""

    def read(self, record: bytes) -> Sequence[Fact]:
        """Return the facts in a record; most records have none.

        Raises:
            InvalidRequest: the record is not what this harness writes; the reader stays usable.
        """
        ...


class RowQuery(Struct, frozen=True, kw_only=True):
    """A query to a harness's database, with its values; rows come back as tuples, at most `limit` of them."""

    sql: str
    values: tuple[Any, ...] = ()
    limit: int = 1_000


class DatabaseReader(Protocol):
    """A plain state machine over a harness's database: it asks for what is new, and remembers how far it got."""

    def queries(self) -> Sequence[RowQuery]:
        """Return what to ask now."""
        ...

    def read(self, query: RowQuery, rows: Sequence[tuple[Any, ...]]) -> Sequence[Fact]:
        """Return the facts in the rows that a query returned.

        Raises:
            InvalidRequest: the rows are not what this harness stores.
        """
        ...


class SourceSpec(Struct, frozen=True, kw_only=True):
    """One kind of telemetry file of a harness.

    `source_id` is the manifest's.  `form` says how the file is framed: JSON ``lines``, concatenated JSON ``objects``,
    or a SQLite ``database``.  `roots` returns the directories (or, for a single file, the file itself) to search, and
    `pattern` the glob below a root (empty when the root is the file); `session_of` returns the session that a path
    names, None if it names none.  `is_ours` says whether a path that a hook named is such a file.
    `make_reader` takes the path and the surroundings; it returns a `RecordReader` or, for a database, a
    `DatabaseReader`.
    """

    source_id: str
    form: Literal["lines", "objects", "database"]
    roots: Callable[[Surroundings], Sequence[str]]
    pattern: str
    session_of: Callable[[str], str | None]
    make_reader: Callable[[str, Surroundings], RecordReader | DatabaseReader]
    is_ours: Callable[[str], bool]
