"""docs/stdio.md is true: its programs run, and its tables are those of the code."""

import asyncio
import json
import os
import re
import shutil
import sys
from pathlib import Path

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from lifebus.stdio.bodies import FollowReceipts
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.framing.json_lines import MAX_LINE
from lifebus_transports.messages.verbs import VERBS
from support.integration.following import emit as emit_many
from support.paths import DOCS
from support.patience import PATIENCE_S
from support.running import connected, running_bus

TEXT = (DOCS / "stdio.md").read_text()


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return str(found)


def environment(daemon: Daemon) -> dict[str, str]:
    """The commands of this installation come first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return os.environ | {"PATH": path, "LIFEBUS_RUNTIME_DIR": str(daemon.settings.runtime_dir)}


async def test_the_script_reads_the_ledger() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emit_many(bus, "s1", "s2")
        with anyio.fail_after(PATIENCE_S):
            done = await anyio.run_process(["sh", "-c", block("sh")], env=environment(daemon))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["receipt"]["harness_session_id"] for line in lines if "receipt" in line] == ["s1", "s2"]
    assert lines[-1]["ended"] == {}


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
async def test_the_editor_gets_what_was_and_what_comes() -> None:
    program = block("js")
    assert len([line for line in program.splitlines() if line]) <= 14
    async with running_bus() as daemon, connected(daemon) as bus:
        await emit_many(bus, "before")
        async with (
            asyncio.timeout(PATIENCE_S),
            await anyio.open_process(["node", "--input-type=module", "-e", program], env=environment(daemon)) as editor,
        ):
            assert editor.stdout is not None
            lines = BufferedByteReceiveStream(editor.stdout)
            received = [await lines.receive_until(b"\n", 200)]
            await emit_many(bus, "after")
            received.append(await lines.receive_until(b"\n", 200))
            editor.kill()
    assert received == [b"before session.started observed", b"after session.started observed"]


def test_every_line_of_the_sample_session_is_a_line_of_the_protocol() -> None:
    for line in block("jsonl").splitlines():
        message = json.loads(line[2:].replace("{…}", "{}"))
        assert set(message) & ({"verb"} if line.startswith("> ") else {"ok", "receipt", "envelope"})


def test_the_tables_name_what_the_code_takes() -> None:
    named = set(re.findall(r"^\| `([a-z]+|checkpoint_[a-z]+)` \|", TEXT, re.MULTILINE))
    files = {"read", "write", "exists", "list", "delete"}
    checkpoints = {"checkpoint_save", "checkpoint_get", "checkpoint_list", "checkpoint_export"}
    assert named - set(VERBS) == {"subscribe", "unsubscribe"} | files | checkpoints
    (keys,) = re.findall(r"`subscribe` \| `\{(.*?)\}`", TEXT)
    assert set(keys.replace("?", "").split(", ")) == set(FollowReceipts.__struct_fields__)
    assert f"{MAX_LINE:,} bytes" in TEXT
