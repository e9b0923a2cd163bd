"""The hook as a whole process, against a live hook server, beside the barest Python process.

Run as ``python -m bench.measures.harnesses.hook [ROUNDS]``.  The server is a process of its own whose handler answers
at once, so the figure is the hook's cost to a harness, without the ledger's.  The cases take turns, so that a noisy
machine hurts them alike.  Aim: at most 1.25 times `python -I -S -c pass`.  The hook is run by the launcher, as an
installation has it; `bench.start` times it with a broker that makes its receipts durable first.
"""

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

from bench.start import installed_hook
from lifebus_adapters.adapter import HookAnswer, HookCall
from lifebus_transports.hooks.server import serve_hooks

AIM = 1.25
BARE_CASE, ANSWERED = "python -I -S -c pass", "hook, answered"
PAYLOAD = b'{"session_id":"0000005d","hook_event_name":"UserPromptSubmit","cwd":"/home/dev/project","prompt":"%b"}'
SERVER = (sys.executable, "-m", "bench.measures.harnesses.hook", "--server")
BARE = (sys.executable, "-I", "-S", "-c", "pass")


async def answer(_: HookCall) -> HookAnswer:
    """Answer as a broker with one delivered payload does."""
    return HookAnswer(stdout=b'{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":"hello"}}')


def timed(command: tuple[str, ...], environment: dict[str, str], payload: Path) -> tuple[float, bytes]:
    """Return the seconds of one process from spawn to exit, and what it printed."""
    with payload.open("rb") as stdin:
        reading, writing = os.pipe()
        began = time.perf_counter()
        actions = [(os.POSIX_SPAWN_DUP2, stdin.fileno(), 0), (os.POSIX_SPAWN_DUP2, writing, 1)]
        # Not subprocess: its own work would be a tenth of the figure.
        child = os.posix_spawn(command[0], command, environment, file_actions=actions)
        _, status = os.waitpid(child, 0)
        seconds = time.perf_counter() - began
    os.close(writing)
    # Read after the end: the answer fits into the pipe, so nothing waits for a reader.
    with os.fdopen(reading, "rb") as stdout:
        printed = stdout.read()
    if status:
        raise SystemExit(f"{command} ended with status {status}")
    return seconds, printed


def collect(rounds: int) -> dict[str, list[float]]:
    """Start the server, time the cases, stop the server; return the seconds of each case."""
    with (
        tempfile.TemporaryDirectory(prefix="lb-") as name,
        subprocess.Popen(
            [sys.executable, "-m", "bench.measures.harnesses.hook", "--server", name], stdout=subprocess.PIPE
        ) as server,
    ):
        try:
            if server.stdout is None or not server.stdout.readline():
                raise SystemExit("the hook server did not start")
            return take_turns(Path(name), rounds)
        finally:
            server.terminate()


def take_turns(base: Path, rounds: int) -> dict[str, list[float]]:
    """Time the cases in turns."""
    up = {"LIFEBUS_RUNTIME_DIR": str(base), "LIFEBUS_STATE_DIR": str(base / "state"), "PATH": os.defpath}
    away = {**up, "LIFEBUS_RUNTIME_DIR": str(base / "nowhere")}
    payload = base / "payload"
    payload.write_bytes(PAYLOAD % (b"x" * 1000))
    call = (installed_hook(base), "claude", "UserPromptSubmit")
    cases = {BARE_CASE: (BARE, up), ANSWERED: (call, up), "hook, spooled": (call, away)}
    times: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + 5):
        for name, (command, environment) in cases.items():
            seconds, printed = timed(command, environment, payload)
            if (name == ANSWERED) != bool(printed):
                raise SystemExit(f"{name}: printed {len(printed)} bytes")
            if turn >= 5:  # the first turns fill caches
                times[name].append(seconds)
    return times


def report(times: dict[str, list[float]]) -> None:
    """Print the figures; the aim is for the answered call."""
    bare = statistics.median(times[BARE_CASE])
    print(f"{'case':24}{'p50 ms':>9}{'p99 ms':>9}{'ratio':>8}")
    for name, values in times.items():
        middle, high = statistics.median(values), statistics.quantiles(values, n=100)[98]
        print(f"{name:24}{middle * 1e3:9.2f}{high * 1e3:9.2f}{middle / bare:8.2f}")
    ratio = statistics.median(times[ANSWERED]) / bare
    print(f"aim: hook, answered at most {AIM} x bare: {ratio:.2f}, {'met' if ratio <= AIM else 'NOT met'}")


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"hook: {rounds} rounds, payload 1.1 kB, Python {platform.python_version()}, {os.cpu_count()} cores")
    report(collect(rounds))


async def serve(base: Path) -> None:
    """Be the hook server."""
    async with anyio.create_task_group() as tasks:
        await tasks.start(lambda *, task_status: serve_hooks(base / "hook.sock", answer, task_status=task_status))
        print("open", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--server"]:
        anyio.run(serve, Path(sys.argv[2]))
    else:
        main()
