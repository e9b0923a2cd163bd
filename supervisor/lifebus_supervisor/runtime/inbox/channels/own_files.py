"""Files of people that this broker acts on: regular ones of ours, of a bounded size, that nobody else may change."""

import os
from pathlib import Path

from lifebus_transports.ownership import foreign_file

# Never through a pipe: to open one would wait for its other end.
OPENING = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""How such a file is opened."""


def read_own(path: Path, descriptor: int, limit: int, *, of_root: bool = False) -> tuple[os.stat_result, str]:
    """Return what is known of an open file, and what it holds; the descriptor stays open.

    Raises:
        ValueError: why it is not read.
        OSError: the system refused.
    """
    found = os.fstat(descriptor)
    if wrong := foreign_file(path, found, of_root=of_root):
        raise ValueError(wrong)
    data = bytearray()
    while len(data) <= limit and (piece := os.read(descriptor, limit + 1 - len(data))):
        data += piece
    if len(data) > limit:
        raise ValueError(f"it is larger than {limit} bytes")
    try:
        return found, data.decode()
    except UnicodeDecodeError:
        raise ValueError("it is no text in UTF-8") from None
