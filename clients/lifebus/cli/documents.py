"""Reading documents from files and stdin, within the contract's limits.

Above: validate, manifest, emit, negotiate.  Below: the contract.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

from cyclopts import Parameter

from lifebus.cli.arguments import UsageError
from lifebus_contract.fields import MAX_MESSAGE_BYTES

__all__ = ["DocumentPath", "is_stdin", "read_document", "read_lines"]

DocumentPath = Annotated[Path | None, Parameter(allow_leading_hyphen=True)]
"""A file, or stdin for none and ``-``."""


def is_stdin(path: Path | None) -> bool:
    """Whether stdin is meant.

    Raises:
        UsageError: the path is a mistyped option.
    """
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


def read_lines(path: Path | None) -> Iterator[bytes]:
    """Yield a file's lines, or stdin's, as they come; of a line over the limit only as much as shows that it is.

    Raises:
        OSError: it cannot be read.
    """
    if path is None or is_stdin(path):
        yield from _lines(sys.stdin.buffer)
        return
    with path.open("rb") as stream:
        yield from _lines(stream)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(MAX_MESSAGE_BYTES + 2):
        if len(line) == MAX_MESSAGE_BYTES + 2 and not line.endswith(b"\n"):
            while (rest := stream.readline(65_536)) and not rest.endswith(b"\n"):
                pass
        yield line.rstrip(b"\r\n")
