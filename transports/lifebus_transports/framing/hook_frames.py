r"""The hook protocol without I/O: a header line of JSON and stdin verbatim; back come exit code and stdout.

See docs/wire-protocol.md, "The hook socket".

    hook -> server {"v":1,"call_id":…,"adapter":…,"hook":…,"pid":…,"cwd":…,"env":{…},"size":N}\n  then N bytes of stdin
    server -> hook <exit code> <stdout length>\n  then that many bytes of stdout, then the end of the stream

A payload over the limit is not sent: the header has `size` 0 and its true size as `oversized`.  `pid` is the process
that the hook works for: its parent's, or its own where it is a part of the harness; it may be missing.  A record of the
spool is the same message, with `spooled_at_epoch_s`, and a newline behind it.

"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from lifebus_adapters.adapter import MAX_PAYLOAD_BYTES, HookAnswer, HookCall
from lifebus_contract import InvalidRequest, load_json, validate

MAX_HEADER_BYTES: Final = 16_384
"""Longest header line, in bytes, with its newline."""

MAX_STDIN_BYTES: Final = MAX_PAYLOAD_BYTES
"""Largest payload, in bytes."""

MAX_ANSWER_BYTES: Final = 1_048_576
"""Largest answer, in bytes with its first line; the hook reads no more."""

MAX_EXIT_CODE: Final = 255
"""Largest exit code of a process."""

BUSY: Final = b"busy\n"
"""What the server answers when it takes no more calls; anything but a whole answer makes the hook spool its call."""

_MAX_HEADER_ITEMS: Final = 128

_CallId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:-]{1,128}\Z")]
_Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:-]{0,128}\Z")]
_Variable = Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]{0,63}\Z")]
_Text = Annotated[str, Meta(max_length=4096)]
_Size = Annotated[int, Meta(ge=0, le=MAX_STDIN_BYTES)]
_Oversize = Annotated[int, Meta(gt=MAX_STDIN_BYTES)]
_Epoch = Annotated[int, Meta(ge=0)]
_Pid = Annotated[int, Meta(ge=0)]


class CallHeader(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The header line: who calls, from where, and how many bytes of stdin follow.

    `oversized` is the true size of a payload that was too large to be sent.  `pid` is a claim: 0 or none where the
    caller cannot say.
    """

    v: Literal[1]
    call_id: _CallId
    adapter: _Name
    hook: _Name
    cwd: _Text
    env: Annotated[dict[_Variable, _Text], Meta(max_length=32)]
    size: _Size
    pid: _Pid | None = None
    oversized: _Oversize | None = None
    spooled_at_epoch_s: _Epoch | None = None


class CallMessage(Struct, frozen=True, kw_only=True):
    """A whole message: the header and the stdin behind it."""

    header: CallHeader
    stdin: bytes

    @property
    def call(self) -> HookCall:
        """The call as adapters take it."""
        head = self.header
        return HookCall(
            call_id=head.call_id,
            adapter_id=head.adapter,
            hook=head.hook,
            cwd=head.cwd,
            env=head.env,
            stdin=self.stdin,
            spooled_at_epoch_s=head.spooled_at_epoch_s,
            oversized=head.oversized,
        )


class CallReader:
    """Collects the bytes of one connection until they are one whole message."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._header: CallHeader | None = None

    def feed(self, data: bytes) -> CallMessage | None:
        """Take what has come; return the message once it is whole.

        Raises:
            InvalidRequest: no message can start or go on like this.
        """
        self._bytes += data
        if self._header is None:
            self._header = self._take_header()
        if self._header is None or len(self._bytes) < self._header.size:
            return None
        # The hook sends one message and then waits: more bytes mean another protocol.
        if len(self._bytes) > self._header.size:
            raise InvalidRequest("more bytes than the header says", code="trailing_bytes", field="$.size")
        return CallMessage(header=self._header, stdin=bytes(self._bytes))

    def _take_header(self) -> CallHeader | None:
        if self._bytes and self._bytes[0] != ord("{"):  # an HTTP verb, another protocol, noise
            raise InvalidRequest("not a hook call", code="malformed", field="$")
        end = self._bytes.find(b"\n", 0, MAX_HEADER_BYTES)
        if end >= 0:
            line = bytes(self._bytes[:end])
            del self._bytes[: end + 1]
            return parse_header(line)
        if len(self._bytes) >= MAX_HEADER_BYTES:
            raise InvalidRequest(f"a header over {MAX_HEADER_BYTES} bytes", code="too_large", field="$")
        return None


def parse_header(line: bytes) -> CallHeader:
    """Return the header that a line (without its newline) holds.

    Raises:
        InvalidRequest: not strict JSON, not exactly the keys of a header, or a value out of its bounds.
    """
    header = validate(load_json(line, max_bytes=MAX_HEADER_BYTES, max_items=_MAX_HEADER_ITEMS), CallHeader)
    if header.oversized is not None and header.size:
        raise InvalidRequest("an oversized payload is not sent", code="against_contract", field="$.oversized")
    # An empty name is legal for the hook field alone: the payload may name the hook.
    if not header.adapter:
        raise InvalidRequest("no adapter is named", code="against_contract", field="$.adapter")
    return header


def encode_call(call: HookCall) -> bytes:
    """Return the message of a call, for whoever plays the hook: the demo, a replay, a test."""
    header = CallHeader(
        v=1,
        call_id=call.call_id,
        adapter=call.adapter_id,
        hook=call.hook,
        cwd=call.cwd,
        env=dict(call.env),
        size=len(call.stdin),
        pid=None if call.process is None else call.process.pid,
        oversized=call.oversized,
        spooled_at_epoch_s=call.spooled_at_epoch_s,
    )
    return msgspec.json.encode(header) + b"\n" + call.stdin


def encode_answer(answer: HookAnswer) -> bytes:
    """Return the bytes of an answer.

    Raises:
        ValueError: no process can exit like that, or the hook would not read so much.
    """
    message = b"%d %d\n%b" % (answer.exit_code, len(answer.stdout), answer.stdout)
    if not 0 <= answer.exit_code <= MAX_EXIT_CODE or len(message) > MAX_ANSWER_BYTES:
        raise ValueError(f"exit code {answer.exit_code} with {len(answer.stdout)} bytes is no answer")
    return message


def decode_answer(message: bytes) -> HookAnswer:
    """Return the answer that a connection brought until its end.

    Raises:
        InvalidRequest: the answer is cut off, or none (`busy` among them).
    """
    line, newline, stdout = message.partition(b"\n")
    match line.split(b" "):
        case [code, length] if newline and code.isdigit() and length.isdigit():
            # A connection that broke off is shorter than its first line says, and no answer.
            if int(code) <= MAX_EXIT_CODE and int(length) == len(stdout):
                return HookAnswer(stdout=stdout, exit_code=int(code))
        case _:
            pass
    raise InvalidRequest("not a whole answer", code="busy" if message == BUSY else "malformed", field="$")
