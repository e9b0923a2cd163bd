"""A client in another language: what node has built in follows, is cut, and goes on without a hole."""

import json
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from support.paths import REPOSITORY
from support.patience import PATIENCE_S
from support.running import connected
from support.transports.gateway import emit, running_gateway

NODE = shutil.which("node")
CLIENT = REPOSITORY / "tests/support/transports/follow.mjs"
FIRST, COUNT = 40, 60

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")


@pytest.mark.parametrize("kind", ["events", "socket"])
async def test_a_client_of_node_goes_on_without_a_hole_through_cuts_and_a_restart(tmp_path: Path, kind: str) -> None:
    async with running_gateway(tmp_path) as (daemon, address), connected(daemon) as bus, AsyncExitStack() as stack:
        await emit(bus, "s1", FIRST)
        command = [str(NODE), "--experimental-websocket", str(CLIENT), kind, address.url, address.token, str(COUNT)]
        process = await stack.enter_async_context(await anyio.open_process(command, stderr=None))
        lines = Lines(process)
        with anyio.fail_after(PATIENCE_S):
            while {"position": FIRST} not in lines.found:
                await lines.read()
        client = stack.pop_all()  # it outlives this broker
    async with client, running_gateway(tmp_path, port=address.port) as (daemon, _), connected(daemon) as bus:
        await emit(bus, "s1", COUNT - FIRST)
        with anyio.fail_after(PATIENCE_S):
            while await lines.read():
                pass
            assert await process.wait() == 0
    assert [one["position"] for one in lines.found if "position" in one] == list(range(1, COUNT + 1))
    resumed = [one["resume"] for one in lines.found if "resume" in one]
    # It came back many times, and each time it was told that everything follows.
    assert resumed[0] == "none"
    assert set(resumed[1:]) == {"complete"}
    assert len(resumed) > 5
    assert [one for one in lines.found if "gap" in one] == []


class Lines:
    """What a client wrote, line by line."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self.found: list[dict[str, int | str]] = []
        self._text = TextReceiveStream(process.stdout)
        self._rest = ""

    async def read(self) -> bool:
        """Read some more; say whether there was any."""
        try:
            self._rest += await self._text.receive()
        except anyio.EndOfStream:
            return False
        *lines, self._rest = self._rest.split("\n")
        self.found += [json.loads(line) for line in lines]
        return True
