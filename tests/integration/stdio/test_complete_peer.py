"""The complete peer of docs/stdio.md: each receipt once in its file, whoever is killed, and a text in a frame."""

import json
import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process

import lifebus
from support.broker_process import BrokerProcess, broker_process, until
from support.integration.consuming import emitted
from support.paths import EXAMPLES
from support.patience import PATIENCE_S
from support.running import short_directory, until_answered

FRAME = lifebus.FrameContext(frame_id="f1", frame_class="top_level")  # type: ignore[arg-type]  # as users write it


@asynccontextmanager
async def peer(directory: Path) -> AsyncIterator[Process]:
    """The example as a process, killed at the end of the block; the command of this installation comes first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environment = os.environ | {"PATH": path, "LIFEBUS_RUNTIME_DIR": str(directory / "run"), "PYTHONWARNINGS": "error"}
    command = [sys.executable, str(EXAMPLES / "stdio_peer.py"), str(directory / "notes.jsonl")]
    async with await anyio.open_process(command, env=environment, stderr=None) as process:
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()


def kept(directory: Path) -> list[dict[str, Any]]:
    """The whole lines of the file."""
    path = directory / "notes.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def in_ledger(broker: BrokerProcess) -> dict[str, Any]:
    """Every receipt by its position, read by plain SQL."""
    with closing(sqlite3.connect(f"file:{broker.ledger_path}?mode=ro", uri=True)) as connection:
        return {
            str(position): json.loads(raw) for position, raw in connection.execute("SELECT position, receipt FROM rows")
        }


async def recorded(broker: BrokerProcess, receipts: int) -> None:
    async with lifebus.connect("feeder", runtime_dir=broker.runtime_dir) as bus:
        await emitted(bus, receipts)


async def settled(broker: BrokerProcess, position: int) -> None:
    """Wait until the name stands there: the peer has written all of it, and its acknowledgements are durable."""
    async with lifebus.connect("onlooker", runtime_dir=broker.runtime_dir) as bus:
        with anyio.fail_after(PATIENCE_S):
            await until_answered(bus.cursors.standing, lambda found: [one.position for one in found] == [position])


async def test_the_complete_peer_emits_serves_and_keeps_each_receipt_once_whoever_is_killed() -> None:
    with short_directory() as directory:
        async with peer(directory) as first:
            async with broker_process(directory) as broker:  # the peer is there before it
                await settled(broker, 1)
                await recorded(broker, 100)
                async with lifebus.connect("harness", runtime_dir=broker.runtime_dir) as bus:
                    request = lifebus.make_request("frame.opening", "codex", session="s0", frame=FRAME)
                    opened = await bus.emit(request)
                assert [one.payload.body for one in opened.deliveries] == [f"Be brief in {request.event_id}."]
                await broker.kill()
            async with broker_process(directory) as broker:
                await recorded(broker, 100)
                await until(lambda: len(kept(directory)) > 102)
                first.kill()
                await recorded(broker, 10)
                async with peer(directory):
                    await settled(broker, 100 + 1 + 1 + 110 + 1)
                wanted = in_ledger(broker)
        lines = kept(directory)
        assert {line["cursor"].partition(":")[2]: line["receipt"] for line in lines} == wanted
        assert len(lines) == len(wanted)
