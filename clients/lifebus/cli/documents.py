"""Reading documents from files and stdin, within the contract's limits."""

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, Final

from cyclopts import Parameter

from lifebus.cli.exit_codes import UsageError
from lifebus_contract import InvalidRequest
from lifebus_contract.fields import MAX_MESSAGE_BYTES

_CHUNK_BYTES: Final = 65_536

DocumentPath = Annotated[Path | None, Parameter(allow_leading_hyphen=True)]
"""A file, or stdin for none and ``-``."""


def is_stdin(path: Path | None) -> bool:
    """Whether stdin is meant.

    Raises:
        UsageError: the path is a mistyped option.
    """
    # The parser hands on what begins with a hyphen, because `-` is stdin.
    if path is not None and str(path).startswith("-") and str(path) != "-":
        raise UsageError(f"unknown option {path}; a file of that name is ./{path}")
    return path is None or str(path) == "-"


def read_document(path: Path | None) -> bytes:
    """Return a file's bytes, or stdin's for None and ``-``; one byte over the limit at most, so that it shows.

    Raises:
        OSError: it cannot be read.
    """
    if path is None or is_stdin(path):
        return sys.stdin.buffer.read(MAX_MESSAGE_BYTES + 1)
    with path.open("rb") as stream:
        return stream.read(MAX_MESSAGE_BYTES + 1)


@contextmanager
def naming_document(path: Path | None, what: str = "the document on stdin") -> Generator[None]:
    """Say which document it is that is refused in the block: the file, or `what` stdin has.

    Raises:
        InvalidRequest: it was refused.
    """
    try:
        yield
    except InvalidRequest as fault:
        where = what if path is None or is_stdin(path) else str(path)
        raise InvalidRequest(f"{where}: {fault.detail}", code=fault.code, field=fault.field) from None


def read_lines(path: Path | None) -> Iterator[bytes]:
    """Yield a file's lines, or stdin's, as they come; see `read_batches`.

    Raises:
        OSError: it cannot be read.
    """
    for batch in read_batches(path):
        yield from batch


def read_batches(path: Path | None) -> Iterator[list[bytes]]:
    """Yield the lines that are there, then wait for more; of a line over the limit only as much as shows that it is.

    Raises:
        OSError: it cannot be read.
    """
    if path is None or is_stdin(path):
        yield from _batches(sys.stdin.buffer)
        return
    with path.open("rb") as stream:
        yield from _batches(stream)


def _batches(stream: BinaryIO) -> Iterator[list[bytes]]:
    # `read` would wait for a full chunk, so that a line typed or piped slowly is seen late.
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    rest = b""
    while chunk := read(_CHUNK_BYTES):
        *lines, last = chunk.split(b"\n")
        whole = [(rest + line if number == 0 else line) for number, line in enumerate(lines)]
        # Bounded: of an endless line only as much is kept as shows that it is too long.
        rest = (last if lines else rest + last)[: MAX_MESSAGE_BYTES + 1]
        if whole:
            yield [line[: MAX_MESSAGE_BYTES + 1].removesuffix(b"\r") for line in whole]
    if rest:
        yield [rest.removesuffix(b"\r")]
