"""What the tries of a run wrote, read in pieces."""

import codecs
from pathlib import Path

import anyio.to_thread

from lifebus_contract import InvalidRequest
from lifebus_supervisor.runtime.output_files import file_of, output_of_try
from lifebus_transports.messages.flows import MAX_OUTPUT_BYTES, FlowLogs, FlowOutput


async def read_output(state_dir: Path, body: FlowLogs, number: int, *, running: bool) -> FlowOutput:
    """Return a piece of what try `number` of a step wrote.

    Raises:
        InvalidRequest: nothing of it is kept (`no_output`).
    """
    path = file_of(output_of_try(state_dir, body.run_id, body.step_id, number), body.stream)
    try:
        data, size = await anyio.to_thread.run_sync(_read, path, body.offset)
    except FileNotFoundError:
        raise InvalidRequest(
            f"nothing is kept of what try {number} of `{body.step_id[:64]}` wrote", code="no_output"
        ) from None
    # Whoever reads on finds whole letters; behind the end of what is written for good no rest of one comes.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, final=not running and body.offset + len(data) >= size)
    left = len(decoder.getstate()[0])
    return FlowOutput(number=number, text=text, next=body.offset + len(data) - left, size=size, running=running)


def _read(path: Path, offset: int) -> tuple[bytes, int]:
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(min(offset, size))
        return stream.read(MAX_OUTPUT_BYTES), size
