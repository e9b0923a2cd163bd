"""One peer on two descriptors: requests read and answered side by side, until the input ends."""

import signal
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from lifebus._internal.log import ClientLogger
from lifebus.stdio.broker_api import BrokerApi
from lifebus.stdio.checkpoints import RootCheckpoints
from lifebus.stdio.files import RootFiles
from lifebus.stdio.lazy_bus import LazyBus
from lifebus.stdio.registration import Registration
from lifebus.stdio.streams import DescriptorReader, DescriptorWriter
from lifebus.stdio.subscriptions import SETTLING, Subscriptions
from lifebus.stdio.writer import LineWriter
from lifebus_contract import InternalError, InvalidRequest, LifebusError
from lifebus_transports.framing.json_lines import (
    MAX_LINE,
    LineRequest,
    UnreadableLine,
    decode_request,
    encode_answer,
    encode_refusal,
)
from lifebus_transports.framing.lines import LineFramer, Overlong
from lifebus_transports.messages.verbs import VERBS

_log = ClientLogger("lifebus.stdio")

_Handlers = dict[str, Callable[[LineRequest], Awaitable[None]]]

# Most requests under way; while there are so many, the next one is not read
_MAX_REQUESTS: Final = 64

# How long after SIGTERM what was taken may be finished and written
_GRACE_S: Final = 2.0


async def serve_peer(
    reader: DescriptorReader,
    writer: DescriptorWriter,
    *,
    runtime_dir: Path | None,
    timeout: float,  # noqa: ASYNC109  the deadline of every request
    root: Path | None = None,
) -> None:
    """Answer the requests of `reader` on `writer` until it ends or SIGTERM comes; what was taken is finished.

    `timeout` is in seconds.  Without a broker every request is refused until there is one, but for those of files,
    which lie beneath `root`.

    Raises:
        LifebusError: `no_root` where the root cannot be opened.
        BrokenPipeError: the answers have no reader any more.
        OSError: the descriptors cannot be read or written.
    """
    bus = LazyBus(runtime_dir, timeout)
    with (
        anyio.CancelScope() as whole,
        closing(LineWriter(writer)) as lines,
        closing(RootFiles(root, lines)) as files,
    ):
        async with anyio.create_task_group() as lasting:
            reading = anyio.CancelScope()
            await lasting.start(_stop_at_sigterm, reading, whole)
            lasting.start_soon(_watch_reader, writer)
            lasting.start_soon(bus.run)
            lasting.start_soon(lines.run)
            requested = anyio.create_task_group()
            local = files.handlers() | RootCheckpoints(root, bus, lines).handlers()
            peer = _Peer(BrokerApi(bus), local, lines, lasting, requested)
            async with requested:
                with reading:
                    await peer.read(reader)
                # Requests that wait for a dispatch to this peer would wait for ever: its responses are not read now.
                await peer.registration.close()
            # Those with an end ran in `requested` and are complete; the others are cut off here.
            await peer.subscriptions.close()
            await lines.drain()
            lasting.cancel_scope.cancel()


class _Peer:
    """The other end of the lines, with its subscriptions and its registration.

    Verbs of streams have a handler here, `local` ones need no broker, and every other one is a call.
    """

    def __init__(
        self, api: BrokerApi, local: _Handlers, lines: LineWriter, lasting: TaskGroup, requested: TaskGroup
    ) -> None:
        self.subscriptions = Subscriptions(api, lines, lasting, requested)
        self.registration = Registration(api, lines, lasting)
        self._api = api
        self._lines = lines
        self._requested = requested
        self._room = anyio.Semaphore(_MAX_REQUESTS)
        self._own = {**self.subscriptions.handlers(), **self.registration.handlers(), **local}

    async def read(self, reader: DescriptorReader) -> None:
        """Take every line; wait where too many requests are under way or the answers are not read."""
        lines = LineFramer(MAX_LINE)
        while data := await reader.read():
            for line in lines.feed(data):
                await self._take(line)
        for line in lines.finish():
            await self._take(line)

    async def _take(self, line: bytes | Overlong) -> None:
        if isinstance(line, bytes) and not line.strip():
            return
        found = decode_request(line)
        if isinstance(found, UnreadableLine):
            await self._lines.put(encode_refusal(found.id, found.fault))
        elif found.verb == "response":
            # It needs no room: it ends a dispatch that requests under way may be waiting for.
            await self.registration.respond(found)
        else:
            # Waiting here stops the reading, and so a peer that writes too much.
            await self._room.acquire()
            self._requested.start_soon(self._answer, found)

    async def _answer(self, request: LineRequest) -> None:
        """Have one request answered; whatever goes wrong is its refusal."""
        try:
            await self._handler_of(request)(request)
        except LifebusError as fault:
            await self._lines.put(encode_refusal(request.id, fault))
        except Exception:  # noqa: BLE001  a defect of ours costs this request, not the peer
            _log.exception("request_failed", verb=request.verb)
            defect = InternalError("lifebus failed on this request; see its log")
            await self._lines.put(encode_refusal(request.id, defect))
        finally:
            self._room.release()

    def _handler_of(self, request: LineRequest) -> Callable[[LineRequest], Awaitable[None]]:
        """Return what serves a request; who consumes by `fetch` settles by a call, as on the wire."""
        if request.verb in SETTLING and "subscription" not in request.body:
            return self._call
        return self._own.get(request.verb, self._call)

    async def _call(self, request: LineRequest) -> None:
        """Pass a call on to the broker."""
        if request.verb not in VERBS:
            known = ", ".join(dict.fromkeys((*VERBS, *self._own)))
            raise InvalidRequest(f"no such verb: `{request.verb}`; known are {known}", code="unknown_verb")
        answer = await self._api.call(request.verb, request.body)
        await self._lines.put(encode_answer(request.id, answer))


async def _stop_at_sigterm(
    reading: anyio.CancelScope, whole: anyio.CancelScope, *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            whole.deadline = min(whole.deadline, anyio.current_time() + _GRACE_S)
            reading.cancel()


async def _watch_reader(writer: DescriptorWriter) -> None:
    """End everything when the reader has gone, even while nothing is written."""
    await writer.hung_up()
    raise BrokenPipeError
