"""Hook calls that neither a broker took nor a spool had room for: a gap on record, as soon as there is room."""

import os
from pathlib import Path

import anyio
import pytest

import lifebus
from lifebus_contract import LifebusError, Receipt
from support.broker_process import BrokerProcess, broker_process, until
from support.clients.hook_box import HookBox
from support.command_line import Shell
from support.integration.small_disk import fill, small_disk
from support.running import short_directory

QUIET = {"LIFEBUS_TICKS_ENABLED": "false", "LIFEBUS_TELEMETRY_ENABLED": "false"}
CALL = b'{"hook_event_name":"SessionStart","session_id":"s1","source":"startup"}'


async def gaps_of(broker: BrokerProcess) -> list[Receipt]:
    """Return the gaps on record, once the broker said that there is one."""
    await until(lambda: '"hook_calls_lost"' in broker.log)
    async with lifebus.connect(runtime_dir=broker.runtime_dir) as bus:
        found = [one async for one in bus.receipts(since="start", until_head=True) if isinstance(one, Receipt)]
    return [one for one in found if one.event == "receipt.gap_detected"]


def counted(spool: Path) -> int:
    """Return how many calls of Codex are lost: as many as their files have bytes, which the broker may be renaming."""
    try:
        return sum(path.stat().st_size for path in spool.glob("*.codex"))
    except FileNotFoundError:
        return -1


async def refused(runtime_dir: Path) -> None:
    """Emit until the disk is full."""
    async with lifebus.connect(runtime_dir=runtime_dir) as bus:
        try:
            while True:
                await bus.emit(lifebus.make_request("session.started", "codex", session="s"))
        except LifebusError as fault:
            assert fault.code == "disk_full"  # noqa: PT017  how often it goes well before is not known


async def test_what_hooks_counted_without_a_broker_is_one_gap_of_their_adapter_at_the_next_start() -> None:
    with short_directory() as directory:
        spool = directory / "state" / "spool"
        spool.mkdir(parents=True, mode=0o700)
        (directory / "state").chmod(0o700)
        (spool / "dropped.claude").touch()
        os.truncate(spool / "dropped.claude", 3)
        async with broker_process(directory, **QUIET) as broker:
            (gap,) = await gaps_of(broker)
            assert (gap.adapter_id, gap.harness_session_id) == ("claude", None)
            assert gap.telemetry_summary["missed_messages"] == 3
            await until(lambda: not any(spool.iterdir()))
        async with broker_process(directory, **QUIET) as broker, lifebus.connect(runtime_dir=broker.runtime_dir) as bus:
            assert (await bus.status()).ledger.head == 1, "told once"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk, which needs root")
async def test_calls_lost_on_a_full_disk_are_bad_for_doctor_and_a_gap_when_there_is_room() -> None:
    with short_directory() as directory, small_disk(directory) as disk:
        state = {"LIFEBUS_STATE_DIR": str(disk / "state"), "LIFEBUS_RETENTION_SPARE_MB": "0", **QUIET}
        shell = Shell(directory, **state)
        box = HookBox(directory, {"LIFEBUS_STATE_DIR": str(disk / "state")})
        spool = disk / "state" / "spool"
        async with broker_process(directory, **state) as broker:
            ballast = fill(disk, leave=0)
            # The last page of the write-ahead log takes a few more.
            await refused(broker.runtime_dir)
            for number in range(3):
                await anyio.to_thread.run_sync(box.run, CALL.replace(b"s1", b"s%d" % number), "codex", "SessionStart")
            # A hook for which the machine is too slow counts its call behind its harness's back.
            await until(lambda: counted(spool) == 3)
            ran = await anyio.to_thread.run_sync(shell.run, "doctor", "--json")
            states = {one["check"]: (one["state"], one["evidence"]) for one in ran.json}
            assert states["state"][0] == "bad"
            assert "the disk is full" in states["state"][1]
            assert (states["spool"][0], states["spool"][1].split()[0]) == ("bad", "3")
            ballast.unlink()
            await until(lambda: not any(spool.iterdir()))
            # One gap, or two where the broker took the first count while the disk was full.
            missed = [(gap.adapter_id, gap.telemetry_summary["missed_messages"]) for gap in await gaps_of(broker)]
            assert ({adapter for adapter, _ in missed}, sum(int(many or 0) for _, many in missed)) == ({"codex"}, 3)
            ran = await anyio.to_thread.run_sync(shell.run, "doctor", "--json")
            states = {one["check"]: (one["state"], one["evidence"]) for one in ran.json}
            assert states["spool"] == ("ok", "empty")
