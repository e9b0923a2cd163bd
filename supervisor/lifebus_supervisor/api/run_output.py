"""What the tries of a run wrote, read in pieces."""

import codecs
from pathlib import Path
from typing import Final

import anyio.to_thread

from lifebus_contract import InvalidRequest
from lifebus_transports.messages.flows import MAX_OUTPUT_BYTES, FlowLogs, FlowOutput

_ENDINGS: Final = {"stdout": "out", "stderr": "err"}


async def read_output(state_dir: Path, body: FlowLogs, number: int, *, running: bool) -> FlowOutput:
    """Return a piece of what try `number` of a step wrote.

    Raises:
        InvalidRequest: nothing of it is kept (`no_output`).
    """
    path = output_path(state_dir, body.run_id, body.step_id, number).with_suffix(f".{number}.{_ENDINGS[body.stream]}")
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


def output_path(state_dir: Path, run_id: str, step_id: str, number: int) -> Path:
    """Return the path of a try's output, without its ending."""
    return state_dir / "runs" / run_id / f"{step_id.replace('/', '_')}.{number}"


def _read(path: Path, offset: int) -> tuple[bytes, int]:
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(min(offset, size))
        return stream.read(MAX_OUTPUT_BYTES), size
