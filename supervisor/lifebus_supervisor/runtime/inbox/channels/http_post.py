"""One HTTP POST whose body is given, and of whose answer the head is read, and the body where it is asked for.

Nothing here blocks the loop, and a cancelled post is over at once, whatever the server does: that is why no thread and
no client library with threads stands behind it.  Redirections are not followed: a signed message goes where it was
meant to go.
"""

import re
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from anyio.abc import ByteStream
from msgspec import Struct

MAX_HEAD_BYTES: Final = 65_536
"""Largest head of an answer."""

_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: [^\r\n]*)?\r?\n")
_RETRY: Final = re.compile(rb"^retry-after:[ \t]*(\d{1,9})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_END: Final = re.compile(rb"\r?\n\r?\n")
_LENGTH: Final = re.compile(rb"^content-length:[ \t]*(\d{1,9})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_CHUNKED: Final = re.compile(rb"^transfer-encoding:[ \t]*chunked[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[^\r\n]*\r\n")
_LAST_CHUNK: Final = b"0\r\n\r\n"
_NO_CONTENT: Final = 204
_PORTS: Final = {"http": 80, "https": 443}


class PostAnswer(Struct, frozen=True):
    """How a server answered: its status, and after how many seconds it wants to be asked again, where it says so.

    `body` is empty unless it was asked for.
    """

    status: int
    retry_after_s: int | None
    body: bytes = b""


class PostFault(Exception):
    """There was no answer; the text says why and never holds the address."""


async def post(url: str, headers: Mapping[str, str], body: bytes, most_answered: int = 0) -> PostAnswer:
    """Post a body and return how the server answered; takes as long as the server does.

    `most_answered` is how many bytes of the answer's body are read; a longer one counts as none.

    Raises:
        PostFault: the server cannot be reached, or answers something else than HTTP.
    """
    try:
        async with await _connect(url) as stream:
            await stream.send(_request(url, headers, body))
            return await _answer(stream, most_answered)
    except ssl.SSLError as fault:
        raise PostFault(f"TLS failed: {fault.reason or 'no reason given'}") from None
    except (OSError, anyio.BrokenResourceError, anyio.EndOfStream) as fault:
        raise PostFault(_why(fault)) from None


async def _connect(url: str) -> ByteStream:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    if parts.scheme == "http":
        return await anyio.connect_tcp(host, port)
    # The certificates are read from disk.
    context = await anyio.to_thread.run_sync(ssl.create_default_context)
    # A server that closes without a TLS farewell has still answered.
    return await anyio.connect_tcp(host, port, ssl_context=context, tls_hostname=host, tls_standard_compatible=False)


def _request(url: str, headers: Mapping[str, str], body: bytes) -> bytes:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = parts.netloc.rpartition("@")[2]
    lines = [f"POST {target} HTTP/1.1", f"Host: {host}", "Connection: close", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


async def _answer(stream: ByteStream, most: int) -> PostAnswer:
    """Read heads until one is that of the answer."""
    data = b""
    while True:
        while (end := _END.search(data)) is None:
            if len(data) > MAX_HEAD_BYTES:
                raise PostFault("the server's answer has no end of its head")
            data += await stream.receive()
        head, data = data[: end.end()], data[end.end() :]
        found = _STATUS.match(head)
        if found is None:
            raise PostFault("the server does not speak HTTP/1")
        status = int(found[1])
        if status >= 200:  # noqa: PLR2004  below stands what a server says before its answer
            retry = _RETRY.search(head)
            answered = await _body(stream, head, data, most) if most and status != _NO_CONTENT else b""
            return PostAnswer(status, None if retry is None else int(retry[1]), answered)


async def _body(stream: ByteStream, head: bytes, data: bytes, most: int) -> bytes:
    """Return the body behind a head: as long as it says, or until the server closes."""
    length, in_chunks = _LENGTH.search(head), _CHUNKED.search(head) is not None
    wanted = None if length is None else int(length[1])
    # Sizes of chunks are not counted.
    while len(data) <= 2 * most and not _is_whole(data, wanted, in_chunks=in_chunks):
        try:
            data += await stream.receive()
        except anyio.EndOfStream:
            if wanted is not None or in_chunks:
                raise
            break
    found = _unchunked(data) if in_chunks else data
    return found if len(found) <= most else b""


def _is_whole(data: bytes, wanted: int | None, *, in_chunks: bool) -> bool:
    """Whether a body is complete; without a length only its end says so."""
    return data.endswith(_LAST_CHUNK) if in_chunks else wanted is not None and len(data) >= wanted


def _unchunked(data: bytes) -> bytes:
    """Return what stands in chunks: each has its size in hex before it, the last one has none."""
    found = b""
    while (size := _CHUNK.match(data)) is not None and (count := int(size[1], 16)):
        found += data[size.end() : size.end() + count]
        data = data[size.end() + count + 2 :]
    return found


def _why(fault: Exception) -> str:
    if isinstance(fault, OSError):
        # Of several addresses of a host each has failed, the last for the reason that stands here.
        text = fault.strerror or (str(fault.__cause__) if fault.__cause__ else "") or str(fault)
        return f"the server cannot be reached: {text[:200]}"
    return "the server hung up before it answered"
