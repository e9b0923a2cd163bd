"""Reads a file that holds one encoded value, and says why where it does not."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from lifebus_broker.atomic_files import read_file

T = TypeVar("T")


class RefusedFile(Struct, frozen=True):
    """A file that does not hold what its name says: the name, and why."""

    name: str
    why: str


def read_decoded(path: Path, max_bytes: int, decode: Callable[[bytes], T]) -> T | RefusedFile | None:
    """Return the value that a file holds, or why it holds none; None where there is no file.

    `decode` raises ValueError for bytes that are no value.
    """
    try:
        data = read_file(path, max_bytes)
    except OSError as fault:
        return RefusedFile(path.name, f"it cannot be read: {fault.strerror}")
    if data is None:
        return None
    if len(data) > max_bytes:
        return RefusedFile(path.name, "it is too large")
    try:
        return decode(data)
    except ValueError as fault:
        return RefusedFile(path.name, str(fault))
