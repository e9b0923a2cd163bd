"""One peer on two descriptors: questions read and answered side by side, until the input ends."""

import signal
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup

from lifebus.client import Bus
from lifebus.stdio.following import Following
from lifebus.stdio.lazy_bus import Reach
from lifebus.stdio.messages import (
    MAX_LINE,
    Junk,
    Question,
    decode_question,
    encode_answer,
    encode_body,
    encode_refusal,
    patience_for,
)
from lifebus.stdio.serving import Serving
from lifebus.stdio.streams import Inlet, Outlet
from lifebus.stdio.writer import Outflow
from lifebus_contract import InternalError, InvalidRequest, LifebusError, validate
from lifebus_transports.framing.lines import LineFramer, Overlong
from lifebus_transports.messages.emissions import Emit
from lifebus_transports.messages.verbs import VERBS

_log = structlog.get_logger("lifebus.stdio")

_MOST: Final = 64
"""Most questions under way; while there are so many, the next one is not read."""

_GRACE_S: Final = 2.0
"""How long after SIGTERM what was taken may be finished and written."""

_Handler = Callable[[Question], Awaitable[None]]


async def speak(inlet: Inlet, outlet: Outlet, *, runtime_dir: Path | None, timeout: float) -> None:  # noqa: ASYNC109  the deadline of every question
    """Answer the questions of `inlet` on `outlet` until it ends or SIGTERM comes; what was taken is finished.

    `timeout` is in seconds.  Without a broker every question is refused until there is one.

    Raises:
        BrokenPipeError: nobody reads the answers any more.
        OSError: the descriptors cannot be read or written.
    """
    reach = Reach(runtime_dir, timeout)
    with anyio.CancelScope() as whole, closing(Outflow(outlet)) as outflow:
        async with anyio.create_task_group() as lasting:
            reading = anyio.CancelScope()
            await lasting.start(_heed_sigterm, reading, whole)
            lasting.start_soon(_watch_reader, outlet)
            lasting.start_soon(reach.run)
            lasting.start_soon(outflow.run)
            asked = anyio.create_task_group()
            peer = _Peer(reach, outflow, lasting, asked)
            async with asked:
                with reading:
                    await peer.read(inlet)
                await peer.serving.close()
            await peer.following.close()
            await outflow.drain()
            lasting.cancel_scope.cancel()


class _Peer:
    """Whoever is at the other end, with its subscriptions and its registration."""

    def __init__(self, reach: Reach, outflow: Outflow, lasting: TaskGroup, asked: TaskGroup) -> None:
        self.following = Following(outflow, lasting, asked)
        self.serving = Serving(outflow, lasting)
        self._reach = reach
        self._outflow = outflow
        self._asked = asked
        self._room = anyio.Semaphore(_MOST)
        self._own: dict[str, _Handler] = {
            "ack": self._settle,
            "emit": self._emit,
            "leave": self.serving.leave,
            "nack": self._settle,
            "serve": self._with_bus(self.serving.serve),
            "subscribe": self._with_bus(self.following.subscribe),
            "unsubscribe": self.following.unsubscribe,
        }

    async def read(self, inlet: Inlet) -> None:
        """Take every line; wait where too many questions are under way or the answers are not read."""
        lines = LineFramer(MAX_LINE)
        while data := await inlet.read():
            for line in lines.feed(data):
                await self._take(line)
        for line in lines.finish():
            await self._take(line)

    async def _take(self, line: bytes | Overlong) -> None:
        if isinstance(line, bytes) and not line.strip():
            return
        found = decode_question(line)
        if isinstance(found, Junk):
            await self._outflow.put(encode_refusal(found.id, found.fault))
        elif found.verb == "response":
            await self.serving.respond(found)
        else:
            await self._room.acquire()
            self._asked.start_soon(self._answer, found)

    async def _answer(self, question: Question) -> None:
        """Have one question answered; whatever goes wrong is its refusal."""
        try:
            await self._own.get(question.verb, self._pass_on)(question)
        except LifebusError as fault:
            await self._outflow.put(encode_refusal(question.id, fault))
        except Exception:  # noqa: BLE001  a defect of ours costs this question, not the peer
            _log.exception("question_failed", verb=question.verb)
            defect = InternalError("lifebus failed on this question; see its log")
            await self._outflow.put(encode_refusal(question.id, defect))
        finally:
            self._room.release()

    async def _pass_on(self, question: Question) -> None:
        """Ask the broker what the peer asks."""
        if question.verb not in VERBS:
            known = ", ".join(dict.fromkeys((*VERBS, *self._own)))
            raise InvalidRequest(f"no such verb: `{question.verb}`; known are {known}", code="unknown_verb")
        bus = await self._reach.bus()
        answer = await bus.ask(question.verb, encode_body(question), more=patience_for(question))
        await self._outflow.put(encode_answer(question.id, msgspec.msgpack.decode(answer)))

    async def _emit(self, question: Question) -> None:
        """Record as the client library does: where every emission has a key, silence is met by asking again."""
        body = validate(question.body, Emit)
        answer = await (await self._reach.bus()).record(body)
        await self._outflow.put(encode_answer(question.id, msgspec.to_builtins(answer, builtin_types=(bytes,))))

    async def _settle(self, question: Question) -> None:
        """Settle what a subscription told; who consumes by `fetch` settles as on the wire."""
        await (self.following.settle if "subscription" in question.body else self._pass_on)(question)

    def _with_bus(self, handle: Callable[[Bus, Question], Awaitable[None]]) -> _Handler:
        async def handler(question: Question) -> None:
            await handle(await self._reach.bus(), question)

        return handler


async def _heed_sigterm(
    reading: anyio.CancelScope, whole: anyio.CancelScope, *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            whole.deadline = min(whole.deadline, anyio.current_time() + _GRACE_S)
            reading.cancel()


async def _watch_reader(outlet: Outlet) -> None:
    """End everything when nobody reads any more, even while nothing is written."""
    await outlet.hung_up()
    raise BrokenPipeError
