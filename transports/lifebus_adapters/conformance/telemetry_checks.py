"""Do the readers of an adapter's telemetry survive records that no harness writes?"""

from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec

from lifebus_adapters.conformance.hostile import NOT_OBJECTS, STRANGE, is_map, mutations, truncations
from lifebus_adapters.conformance.subject import Subject, flat
from lifebus_adapters.shared.telemetry import DatabaseReader, RecordReader, RowQuery, SourceSpec, Surroundings
from lifebus_contract import InvalidRequest, LifebusError

_SURROUNDINGS: Final = Surroundings(home="/home/dev", environ={})
_PATH: Final = "/home/dev/telemetry"
_VALUES: Final[tuple[Any, ...]] = (None, 0, -1, 2**62, 1.5, "", "x", "\x00", '{"a":1}', "[]", b"\xff", "[" * 200)
_MAX_WIDTH: Final = 12


def records_are_read_or_refused(subject: Subject) -> Iterator[str]:
    """A record that the harness does not write is refused or passed over; good ones are read as before after it."""
    for source in subject.adapter.sources:
        # One reader for all records: what one of them breaks shows in the next.
        reader = source.make_reader(_path(source), _SURROUNDINGS)
        if source.form == "database":
            continue
        good = list(subject.records.get(source.source_id, ()))
        for number, record in enumerate(_hostile_records(good)):
            fault = _fault(cast("RecordReader", reader), record)
            if fault:
                yield f"source `{source.source_id}`, hostile record {number}: {fault}"
        yield from (
            f"source `{source.source_id}`: good record {number} is refused: {fault}"
            for number, record in enumerate(good)
            if (fault := _refusal(cast("RecordReader", source.make_reader(_path(source), _SURROUNDINGS)), record))
        )


def databases_are_read_or_refused(subject: Subject) -> Iterator[str]:
    """Rows that the harness does not store are refused or passed over, and queries can still be asked."""
    for source in subject.adapter.sources:
        if source.form != "database":
            continue
        reader = cast("DatabaseReader", source.make_reader(_path(source), _SURROUNDINGS))
        for row in _rows():
            for query in reader.queries():
                fault = _row_fault(reader, query, row)
                if fault:
                    yield f"source `{source.source_id}`, a row of {len(row)}: {fault}"


def _path(source: SourceSpec) -> str:
    """Return a path that the source might have: its own root where that is a file."""
    roots = source.roots(_SURROUNDINGS)
    return roots[0] if roots and not source.pattern else _PATH


def _hostile_records(good: list[bytes]) -> Iterator[bytes]:
    yield from (*NOT_OBJECTS, *STRANGE, b"{}", b'{"type":1,"payload":[]}', b'{"type":"x","payload":null}')
    for record in good:
        yield from truncations(record)
        decoded: Any = msgspec.json.decode(record)
        if is_map(decoded):
            yield from (msgspec.json.encode(strange) for _, strange in mutations(decoded))


def _rows() -> Iterator[tuple[Any, ...]]:
    yield ()
    for width in range(1, _MAX_WIDTH + 1):
        yield from ((value,) * width for value in _VALUES)


def _fault(reader: RecordReader, record: bytes) -> str | None:
    """Return what went wrong beyond a refusal."""
    try:
        for fact in reader.read(record):
            flat(fact)
    except InvalidRequest:
        return None
    except Exception as fault:  # noqa: BLE001  this is what is looked for
        return f"raises {type(fault).__name__}"
    return None


def _refusal(reader: RecordReader, record: bytes) -> str | None:
    try:
        reader.read(record)
    except LifebusError as fault:
        return fault.detail
    return None


def _row_fault(reader: DatabaseReader, query: RowQuery, row: tuple[Any, ...]) -> str | None:
    try:
        for fact in reader.read(query, [row]):
            flat(fact)
    except InvalidRequest:
        return None
    except Exception as fault:  # noqa: BLE001  this is what is looked for
        return f"raises {type(fault).__name__}"
    return None
