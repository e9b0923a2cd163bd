"""Typed reads from the lines of somebody else's JSON file: what is not as expected is refused, never a crash.  Pure."""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import msgspec

from lifebus_adapters.shared.telemetry import Fact, RecordReader, Surroundings
from lifebus_contract import InvalidRequest
from lifebus_contract.fields import MAX_INTEGER

T = TypeVar("T")

_NAME_CHARACTERS: Final = 256
_TEXT_CHARACTERS: Final = 1024
_UUID_CHARACTERS: Final = 36
_DASHES: Final = (8, 13, 18, 23)


class LineDecoder(Generic[T]):
    """Reads JSON into one type; unknown keys are passed over, because harnesses add some with every version."""

    def __init__(self, kind: type[T]) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)

    def read(self, data: bytes | msgspec.Raw) -> T:
        """Return the typed record.

        Raises:
            InvalidRequest: malformed, nested too deep, or something in it is of another type.
        """
        try:
            return self._decoder.decode(data)
        except msgspec.ValidationError as fault:
            raise InvalidRequest(f"a record of another form: {fault}"[:256], code="wrong_type", field="$") from None
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            # The record's own text stays out of the error: it may be a prompt.
            raise InvalidRequest("a record that is not JSON", code="malformed", field="$") from None


class _OnlySession:
    """A reader that keeps what is about one session."""

    def __init__(self, reader: RecordReader, session: str) -> None:
        self._reader = reader
        self._session = session

    def read(self, record: bytes) -> Sequence[Fact]:
        return [fact for fact in self._reader.read(record) if fact.session == self._session]


def only_session(reader: RecordReader, override: tuple[str, str] | None) -> RecordReader:
    """Return a reader for the session alone that an environment variable names; the reader itself if none is set."""
    return reader if override is None else _OnlySession(reader, override[1])


def named(value: str | None, field: str) -> str | None:
    """Return an id or name from a record; None where it is absent or empty.

    Raises:
        InvalidRequest: longer than 256 characters, or not printable.
    """
    # Harnesses leave an id empty where there is none.
    if not value:
        return None
    if len(value) > _NAME_CHARACTERS or not value.isprintable():
        raise InvalidRequest(f"`{field}` is no printable name", code="bad_identifier", field=f"$.{field}")
    return value


def plain_text(value: object) -> str | None:
    """Return a directory or a branch that a record names, None where it is no text that a receipt can hold.

    It is evidence and no id: nothing in it is worth losing the record.
    """
    return value if isinstance(value, str) and 0 < len(value) <= _TEXT_CHARACTERS and value.isprintable() else None


def title_text(value: object) -> str | None:
    """Return a title of a record, cut to what a receipt can hold; None where there is none."""
    return value[:_TEXT_CHARACTERS] if isinstance(value, str) and value.strip() else None


def bounded_sum(*tokens: int | None) -> int:
    """Return the sum of token counts, absent ones being 0.

    Raises:
        InvalidRequest: it is beyond what JSON readers agree on.
    """
    total = sum(count or 0 for count in tokens)
    if total > MAX_INTEGER:
        raise InvalidRequest("token counts beyond 2^53", code="integer_range", field="$")
    return total


def named_override(surroundings: Surroundings, *names: str) -> tuple[str, str] | None:
    """Return name and value of the first set variable; None if its value is no printable name."""
    found = surroundings.first(*names)
    return found if found and len(found[1]) <= _NAME_CHARACTERS and found[1].isprintable() else None


def positive_override(surroundings: Surroundings, *names: str) -> tuple[str, int] | None:
    """Return name and value of the first set variable; None if its value is no positive number."""
    found = surroundings.first(*names)
    # `isdigit` alone takes digits of other alphabets; int() reads any number of digits.
    if found is None or not found[1].isascii() or not found[1].isdigit() or len(found[1]) > len(str(MAX_INTEGER)):
        return None
    tokens = int(found[1])
    return (found[0], tokens) if 0 < tokens <= MAX_INTEGER else None


def base_name(path: str, suffix: str) -> str | None:
    """Return a file's name without its suffix, None if it has another."""
    name = path.rpartition("/")[2]
    return name.removesuffix(suffix) if name.endswith(suffix) else None


def is_uuid(text: str) -> bool:
    """Whether a text has the form of a UUID, as the ids of sessions have."""
    if len(text) != _UUID_CHARACTERS or not text.isascii() or any(text[at] != "-" for at in _DASHES):
        return False
    digits = text.replace("-", "")
    return len(digits) == _UUID_CHARACTERS - len(_DASHES) and all(digit in "0123456789abcdefABCDEF" for digit in digits)
