"""Lines on their way out: many put them in, one writes them, and who is quicker than the reader waits."""

from typing import Final

import anyio

from lifebus.stdio.streams import DescriptorWriter

_MOST_LINES: Final = 32
_BATCH_BYTES: Final = 65_536


class LineWriter:
    """A bounded queue of whole lines before an outlet.  A line is written whole or not at all while `run` lives.

    Its owner calls `close` in the end.
    """

    def __init__(self, outlet: DescriptorWriter) -> None:
        self._outlet = outlet
        # Few lines: what waits here is already made, and subscriptions stop while it is full.
        self._end, self._lines = anyio.create_memory_object_stream[bytes](_MOST_LINES)
        self._written = anyio.Event()

    async def put(self, line: bytes) -> None:
        """Put a line behind the others, once there is room.  A caller that is cancelled has put nothing, or all."""
        await self._end.send(line)

    async def run(self) -> None:
        """Write lines until `drain` was called and nothing is left.

        Raises:
            BrokenPipeError: the reader has gone.
            OSError: they cannot be written.
        """
        async for line in self._lines:
            await self._outlet.write(self._with_others(line))
        self._written.set()

    async def drain(self) -> None:
        """Take no more lines, and wait until all are written."""
        self._end.close()
        await self._written.wait()

    def close(self) -> None:
        """Free the queue; lines that are still in it are lost."""
        self._end.close()
        self._lines.close()

    def _with_others(self, line: bytes) -> bytes:
        """Return the line with those that wait behind it, so that a burst is few writes."""
        lines, size = [line], len(line)
        # Few large writes instead of many small ones; none waits for a line that is not there yet.
        while size < _BATCH_BYTES and self._lines.statistics().current_buffer_used:
            lines.append(self._lines.receive_nowait())
            size += len(lines[-1])
        return b"".join(lines)
