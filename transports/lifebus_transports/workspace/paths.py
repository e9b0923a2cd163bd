"""Which texts are paths beneath a root; nothing is asked of the file system.  Pure."""

import os
import re
from typing import Final

from msgspec import Struct

from lifebus_contract import InvalidRequest

MAX_PATH_BYTES: Final = 4_095
"""Longest path in bytes, as Linux has it without the final zero."""

MAX_NAME_BYTES: Final = 255
"""Longest name within a path, in bytes."""

_UNFINISHED: Final = re.compile(r"\.lifebus-[0-9a-f]{16}\.tmp")


class BeneathPath(Struct, frozen=True):
    """A path as the names that lead to it from the root; no names are the root itself.

    `of_directory` says that it can only be a directory: it ends in a slash or a dot, or is the root.
    """

    names: tuple[str, ...]
    of_directory: bool

    def __str__(self) -> str:
        return "/".join(self.names) or "."


def parse_path(text: str) -> BeneathPath:
    """Return the names of a path; empty ones and dots are left out.

    Raises:
        InvalidRequest: `path_outside` where it begins at `/` or goes up by `..`; `path_invalid` where it is none.
    """
    shown = text[:64]
    if not text:
        raise _invalid("an empty text is no path; the root itself is `.`")
    if "\0" in text:
        raise _invalid(f"`{shown}` holds a zero byte, which no path has")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise _invalid(f"`{shown!a}` holds a lone surrogate, so that it is no Unicode text") from None
    if size > MAX_PATH_BYTES:
        raise _invalid(f"a path of {size} bytes; the limit is {MAX_PATH_BYTES}")
    if text.startswith("/"):
        raise _outside(f"`{shown}` is absolute; paths here are relative to the root")
    pieces = text.split("/")
    # Refused wherever it stands: what `a/..` names depends on what `a` is.
    if ".." in pieces:
        raise _outside(f"`{shown}` goes up by `..`; a path here names everything from the root on")
    names = tuple(piece for piece in pieces if piece not in ("", "."))
    for name in names:
        _check_name(name)
    return BeneathPath(names, of_directory=pieces[-1] in ("", "."))


def parse_file_path(text: str) -> BeneathPath:
    """Return the names of a path that can be a file's.

    Raises:
        InvalidRequest: as `parse_path`; `not_a_file` where it can only be a directory's.
    """
    path = parse_path(text)
    if path.of_directory:
        detail = f"`{text[:64]}` is the path of a directory; a file's does not end in a slash or a dot"
        raise InvalidRequest(detail, code="not_a_file", field="$.path")
    return path


def unfinished_name(random: bytes) -> str:
    """Return the name under which a file is written until it is whole; `random` are eight bytes."""
    return f".lifebus-{random.hex()}.tmp"


def is_unfinished(name: str) -> bool:
    """Whether a name is one of those under which files are written."""
    return _UNFINISHED.fullmatch(name) is not None


def _check_name(name: str) -> None:
    size = len(os.fsencode(name))
    if size > MAX_NAME_BYTES:
        raise _invalid(f"`{name[:64]}…` is a name of {size} bytes; the limit is {MAX_NAME_BYTES}")
    # Whatever has such a name is removed as soon as nobody writes it.
    if is_unfinished(name):
        raise _invalid(f"`{name}` is a name under which unfinished files are written")


def _invalid(detail: str) -> InvalidRequest:
    return InvalidRequest(detail, code="path_invalid", field="$.path")


def _outside(detail: str) -> InvalidRequest:
    return InvalidRequest(detail, code="path_outside", field="$.path")
