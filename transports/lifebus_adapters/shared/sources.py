"""The two kinds of sources that most harnesses have: a log a session, and one database for all."""

from collections.abc import Callable, Sequence

from lifebus_adapters.shared.telemetry import DatabaseReader, RecordReader, SourceSpec, Surroundings


def no_session(_: str) -> None:
    """Return None: the path does not name its session."""


def session_logs(
    source_id: str,
    *,
    roots: Callable[[Surroundings], Sequence[str]],
    pattern: str,
    session_of: Callable[[str], str | None],
    make_reader: Callable[[str, Surroundings], RecordReader],
) -> SourceSpec:
    """Return the source of files of JSON lines, each of which is named by its session."""
    return SourceSpec(
        source_id=source_id,
        form="lines",
        roots=roots,
        pattern=pattern,
        session_of=session_of,
        make_reader=make_reader,
        # A path comes from a hook's payload: it must look like a file of this harness before it is opened.
        is_ours=lambda path: session_of(path) is not None,
    )


def database(
    *,
    roots: Callable[[Surroundings], Sequence[str]],
    is_ours: Callable[[str], bool],
    make_reader: Callable[[], DatabaseReader],
    pattern: str = "",
) -> SourceSpec:
    """Return the source of a SQLite database that holds all sessions; without a pattern the root is the file."""
    return SourceSpec(
        source_id="database",
        form="database",
        roots=roots,
        pattern=pattern,
        session_of=no_session,
        make_reader=lambda path, surroundings: make_reader(),  # noqa: ARG005  one shape for all sources
        is_ours=is_ours,
    )
