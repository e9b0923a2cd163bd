"""The examples of the documentation, run as processes against a real broker."""

import os
import signal
import sys

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

import lifebus
from lifebus_supervisor.daemon.composition import Daemon
from support.paths import EXAMPLES, REPOSITORY
from support.patience import PATIENCE_S
from support.running import connected, running_bus

OUTPUT = {
    "emit": "2 frame.opened\n",
    "follow": "1 session.started observed\n",
    "negotiate": "codex satisfied",
    "script": "event=<LifecycleEvent.SESSION_STARTED",
}


def environment(daemon: Daemon) -> dict[str, str]:
    return os.environ | {"LIFEBUS_RUNTIME_DIR": str(daemon.settings.runtime_dir), "PYTHONWARNINGS": "error"}


@pytest.mark.parametrize("name", OUTPUT)
async def test_an_example_does_what_it_says(name: str) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        if name == "follow":
            await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))
        with anyio.fail_after(PATIENCE_S):
            done = await anyio.run_process([sys.executable, str(EXAMPLES / f"{name}.py")], env=environment(daemon))
        sessions = await bus.sessions()
    assert OUTPUT[name] in done.stdout.decode()
    # Who tries an example leaves no session behind that looks as if it went on.
    assert [one.harness_session_id for one in sessions if not one.ended or one.open_frames] == ["s1"] * (
        name == "follow"
    )


async def test_the_serving_example_delivers_into_a_frame() -> None:
    frame = lifebus.FrameContext(frame_id="f1", frame_class="top_level")  # type: ignore[arg-type]  # as users write it
    async with running_bus() as daemon, connected(daemon) as bus:
        with anyio.fail_after(PATIENCE_S):
            async with await anyio.open_process(
                [sys.executable, str(EXAMPLES / "serve.py")], env=environment(daemon)
            ) as worker:
                assert worker.stdout is not None
                assert await BufferedByteReceiveStream(worker.stdout).receive_until(b"\n", 100) == b"ready"
                result = await bus.emit(lifebus.make_request("frame.opening", "codex", session="s1", frame=frame))
                worker.send_signal(signal.SIGKILL)
    assert [delivery.payload.body for delivery in result.deliveries] == [f"Be brief in {result.receipts[0].event_id}."]


@pytest.mark.parametrize("protocol", ["oneshot", "jsonl"])
async def test_the_command_example_delivers_into_a_frame(protocol: str) -> None:
    frame = lifebus.FrameContext(frame_id="f1", frame_class="top_level")  # type: ignore[arg-type]  # as users write it
    arguments = ["--event", "frame.opening", "--client", "notes", "--deadline", "20s", "--protocol", protocol]
    command = [sys.executable, "-m", "lifebus", "serve", *arguments, "--", sys.executable, str(EXAMPLES / "command.py")]
    async with running_bus() as daemon, connected(daemon) as bus:
        with anyio.fail_after(PATIENCE_S):
            async with await anyio.open_process(command, env=environment(daemon)) as serving:
                assert serving.stderr is not None
                await BufferedByteReceiveStream(serving.stderr).receive_until(b"\n", 100)
                result = await bus.emit(lifebus.make_request("frame.opening", "codex", session="s1", frame=frame))
                serving.send_signal(signal.SIGTERM)
    assert [delivery.payload.body for delivery in result.deliveries] == [f"Be brief in {result.receipts[0].event_id}."]


def waiting_program(name: str) -> str:
    """Return an example that goes on waiting for more after it has printed a line."""
    if name.endswith(".md"):
        text = (REPOSITORY / name).read_text().partition("```python\n")[2].partition("```")[0]
    else:
        text = (EXAMPLES / name).read_text()
    return text.replace("                break\n", "                pass\n").replace(", until_head=True", "")


@pytest.mark.parametrize("name", ["README.md", "docs/recipes/follow-python.md", "serve.py", "follow.py"])
async def test_ctrl_c_ends_an_example_that_waits_without_a_traceback(name: str) -> None:
    program = ["-u", "-c", waiting_program(name)]
    async with running_bus() as daemon, connected(daemon) as bus:
        await bus.emit(lifebus.make_request("session.started", "codex", session="s0"))
        with anyio.fail_after(PATIENCE_S):
            async with await anyio.open_process([sys.executable, *program], env=environment(daemon)) as waiting:
                assert waiting.stdout is not None
                assert waiting.stderr is not None
                # What it prints first says that it follows or serves, and from here on it waits.
                await BufferedByteReceiveStream(waiting.stdout).receive_until(b"\n", 100)
                waiting.send_signal(signal.SIGINT)
                said = b"".join([part async for part in waiting.stderr])
                assert (await waiting.wait(), said) == (130, b"")


def test_every_example_is_run_here_and_short() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    # in tests/crash, tests/adapters/test_new_harness.py and tests/integration/stdio/test_complete_peer.py
    elsewhere = {"thread_sync", "harness", "stdio_peer"}
    assert names == {*OUTPUT, "command", "serve", *elsewhere}
    for path in [EXAMPLES / f"{name}.py" for name in names - elsewhere]:
        code = [line for line in path.read_text().splitlines() if line.strip()]
        assert len(code) <= 14, path.name
