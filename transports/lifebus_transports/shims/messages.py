"""What an owner and a shim say to one another: JSON documents behind their lengths.  Pure."""

import json
from typing import Any, Final, TypedDict

_LENGTH: Final = 4


class Limit(TypedDict):
    """A limit of the system: the name of the resource as in ``RLIMIT_CPU``, and both of its values."""

    name: str
    soft: int
    hard: int


class ShimCommand(TypedDict):
    """A command as its shim gets it; `keep` is how many bytes are kept of the beginning and of the end of an output.

    `output` is a path without an ending.  With `records_end` how it ended is written beside the output as well.
    """

    argv: list[str]
    cwd: str
    environment: dict[str, str]
    output: str
    keep: int
    limits: list[Limit]
    records_end: bool


class ShimEnd(TypedDict):
    """How a command ended; `status` is its exit code, negative for a signal.

    `asked` says that it was asked to end before it did; `tail` is the end of its stderr, a character for each byte.
    `left` counts what it left behind running, `stuck` what outlived SIGKILL.  `output_fault` says why not all was kept.
    """

    status: int
    asked: bool
    sizes: list[int]
    tail: str
    left: int
    stuck: int
    output_fault: str


class StartFault(TypedDict):
    """Why a command did not start: what was done (``output``, ``cwd``, ``limits``, ``exec``), and the error number.

    The owner adds ``launch``, for a shim that is not to be had.
    """

    stage: str
    number: int


def pack(message: object) -> bytes:
    """Return a message as it goes over the channel."""
    body = json.dumps(message).encode()
    return len(body).to_bytes(_LENGTH, "big") + body


class Unpacker:
    """Takes in bytes as they come, and returns the messages that are whole."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """Take in what came and return the messages that it completes."""
        self._kept += data
        found: list[Any] = []
        while len(self._kept) >= _LENGTH:
            end = _LENGTH + int.from_bytes(self._kept[:_LENGTH], "big")
            if len(self._kept) < end:
                break
            found.append(json.loads(self._kept[_LENGTH:end]))
            del self._kept[:end]
        return found
