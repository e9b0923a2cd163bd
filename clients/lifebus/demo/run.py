"""Runs the demonstration: a broker, clients, followers, hooks; then the checks."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

import anyio

from lifebus.client import Bus, connect
from lifebus.demo.broker_process import demo_environment, running_broker
from lifebus.demo.checks import Check, RecordedReceipt, check_facts, check_follower, check_hooks, check_sequences
from lifebus.demo.participants import CLIENTS, DemoFollower, serve_client
from lifebus.demo.replay import HARNESSES, Replayer, load_recordings, sessions_of
from lifebus.demo.view import DemoView
from lifebus_contract.codec import decode_receipt
from lifebus_transports.messages.reads import Backfill

_CATCH_UP_S: Final = 30.0
_RETRY_S: Final = 0.05


async def run_demo(view: DemoView, speed: float | None) -> list[Check]:
    """Run it all and return what was proved.

    Raises:
        LifebusError: the broker did not start, or stopped answering.
        TimeoutError: the followers did not catch up in time.
    """
    home = Path(tempfile.mkdtemp(prefix="lifebus-demo-"))
    try:
        environment = demo_environment(home)
        async with running_broker(home, environment) as broker:
            checks = await _run_scenario(view, home, Replayer(environment, home, speed, view.hook_answered), broker.pid)
        code = broker.returncode
        return [*checks, Check("broker", code == 0, f"stopped in order, exit code {code}")]
    finally:
        shutil.rmtree(home, ignore_errors=True)


async def _run_scenario(view: DemoView, home: Path, replayer: Replayer, broker_pid: int) -> list[Check]:
    """Start clients and followers, replay every recording, and compare what was seen with the ledger."""
    recordings, runtime_dir = load_recordings(), home / "run"
    everything, interrupted = DemoFollower("everything"), DemoFollower("late")
    of_sessions = [DemoFollower(f"{pair[0]} …{pair[1][-6:]}", pair) for pair in sessions_of(recordings)]
    followers, dispatched, resume = [everything, interrupted, *of_sessions], list[str](), anyio.Event()
    calls = sum(len(recording.steps) for recording in recordings)
    checks: list[Check] = []
    async with connect("demo.followers", runtime_dir=runtime_dir) as bus, anyio.create_task_group() as tasks:
        for client in CLIENTS:  # registered before the first hook call: each has to get its dispatches
            await tasks.start(serve_client, client, runtime_dir, dispatched.append)
        tasks.start_soon(everything.follow, bus, view.receipt)
        tasks.start_soon(interrupted.follow_interrupted, runtime_dir, resume, view.note)
        for follower in of_sessions:
            tasks.start_soon(follower.follow, bus)
        view.opened(home, broker_pid, calls, len(of_sessions))
        async with anyio.create_task_group() as harnesses:
            for adapter in HARNESSES:
                harnesses.start_soon(replayer.replay, [one for one in recordings if one.adapter == adapter])
        # After the last hook call, so that the late follower has missed something.
        resume.set()
        with anyio.fail_after(_CATCH_UP_S):
            await _spool_taken_in(home / "state/spool", view)
            recorded = await _caught_up(bus, followers)
        faults = (await bus.verify()).faults
        spooled = (await bus.status()).counters.get("spool_drained", 0)
        checks += [
            *(check_follower(recorded, follower) for follower in followers),
            check_sequences(recorded),
            Check("chain", not faults, "the broker's hash chain is sound" if not faults else faults[0]),
            *check_hooks(replayer.results, calls, spooled),
            *check_facts(recorded, dispatched),
        ]
        tasks.cancel_scope.cancel()
    return checks


async def _caught_up(bus: Bus, followers: list[DemoFollower]) -> list[RecordedReceipt]:
    """Wait until every follower is where the ledger is, and return the ledger."""
    while True:
        recorded = await _read_ledger(bus)
        newest = {one.session: one.position for one in recorded}
        for follower in followers:
            await follower.reaches(
                recorded[-1].position if follower.session is None else newest.get(follower.session, 0)
            )
        if (await bus.status()).ledger.head == recorded[-1].position:
            return recorded


async def _read_ledger(bus: Bus) -> list[RecordedReceipt]:
    """Read the whole ledger by pages: the followers are compared with something that did not come by the stream."""
    recorded: list[RecordedReceipt] = []
    after = 0
    while True:
        page = await bus.read(Backfill(after=after))
        recorded += [RecordedReceipt(one.position, decode_receipt(one.receipt)) for one in page.rows]
        after = page.next
        if page.complete:
            return recorded


async def _spool_taken_in(spool: Path, view: DemoView) -> None:
    """Wait until the broker has taken in what hooks left in the spool because the machine was too busy."""
    files = [spool / "calls", spool / "calls.claimed"]
    if any(file.exists() for file in files):
        view.note("the machine is busy: some hooks left their call in the spool; the broker takes them in")
    while any(file.exists() for file in files):  # noqa: ASYNC110  another process removes them
        await anyio.sleep(_RETRY_S)
