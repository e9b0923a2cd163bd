"""A child process that is asked in JSON lines and answers in JSON lines, one each; with deadlines and bounds.

It is started from an argument list, never by a shell, in a process group of its own, which is ended with it.  Whatever
it does, a question ends in an answer or a `ProgramFault`, after its deadline at the latest.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import IO, Any, Final, cast

import msgspec

from lifebus_contract import InvalidRequest, load_json

MAX_ANSWER_BYTES: Final = 2_097_152
"""Longest answer, in bytes."""

_MAX_ITEMS: Final = 65_536
_MAX_STARTS: Final = 8
_CHUNK: Final = 65_536
_END_S: Final = 2.0


class ProgramFault(Exception):
    """The program broke the protocol: no answer in time, none at all, or nonsense.  Its text says which."""


class JsonLines:
    """A program to be asked.  It is started when it is first needed, and again after a fault, a few times."""

    def __init__(self, command: Sequence[str], deadline_s: float) -> None:
        self._command = list(command)
        self._deadline_s = deadline_s
        self._starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a question.

        Raises:
            ProgramFault: there is none, or it is no JSON object.
        """
        process = self._running()
        try:
            line = self._exchange(process, msgspec.json.encode(question) + b"\n")
            answer: Any = load_json(line, max_bytes=MAX_ANSWER_BYTES, max_items=_MAX_ITEMS)
        except InvalidRequest as fault:
            self.kill()
            raise ProgramFault(f"its answer is no strict JSON: {fault.detail}") from None
        except (OSError, ProgramFault) as fault:
            self.kill()
            raise ProgramFault(str(fault) or type(fault).__name__) from None
        if not isinstance(answer, dict):
            raise ProgramFault("its answer is not an object")
        return cast("dict[str, Any]", answer)

    def finish(self) -> int | None:
        """Close its input and return its exit code; None where it did not end by itself, and had to be killed."""
        process = self._process
        if process is None:
            return 0
        try:
            cast("IO[bytes]", process.stdin).close()
            code = process.wait(_END_S)
        except (subprocess.TimeoutExpired, OSError):
            code = None
        self.kill()
        return code

    def kill(self) -> None:
        """End the program and all that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            os.killpg(process.pid, signal.SIGKILL)  # the group outlives its leader
        except (ProcessLookupError, PermissionError):
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            cast("IO[bytes]", stream).close()

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is not None:
            return self._process
        self._starts += 1
        if self._starts > _MAX_STARTS:
            raise ProgramFault(f"it broke off {_MAX_STARTS} times and is not started again")
        try:
            self._process = subprocess.Popen(  # noqa: S603  an argument list that the user has given
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
            )
        except OSError as fault:
            raise ProgramFault(f"it cannot be started: {fault.strerror}") from None
        for stream in (self._process.stdin, self._process.stdout):
            os.set_blocking(cast("IO[bytes]", stream).fileno(), False)
        return self._process

    def _exchange(self, process: "subprocess.Popen[bytes]", question: bytes) -> bytes:
        """Write the question while reading the answer, so that neither side waits for the other."""
        until = time.monotonic() + self._deadline_s
        unsent, answer = memoryview(question), bytearray()
        stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        with selectors.DefaultSelector() as ready:
            ready.register(stdout, selectors.EVENT_READ)
            ready.register(stdin, selectors.EVENT_WRITE)
            while b"\n" not in answer[-_CHUNK:]:
                found = ready.select(max(0.0, until - time.monotonic()))
                if not found:
                    raise ProgramFault(f"no answer within {self._deadline_s:g} s")
                for key, _ in found:
                    if key.fileobj is stdout:
                        _receive(stdout, answer)
                        continue
                    unsent = unsent[os.write(stdin.fileno(), unsent[:_CHUNK]) :]
                    if not unsent:
                        ready.unregister(stdin)
        line, _, more = bytes(answer).partition(b"\n")
        if more or unsent:
            raise ProgramFault("it answers before it was asked, or more than one line")
        return line


def _receive(stdout: IO[bytes], answer: bytearray) -> None:
    """Read what has come.

    Raises:
        ProgramFault: the end of the stream, or too much.
    """
    chunk = os.read(stdout.fileno(), _CHUNK)
    if not chunk:
        raise ProgramFault("it ended, or closed its output, without an answer")
    answer += chunk
    if len(answer) > MAX_ANSWER_BYTES:
        raise ProgramFault(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
