"""A broker that checks its whole ledger at idle: damage that no start reads is in `status`, log and doctor."""

import json

import anyio

import lifebus
from lifebus_transports.messages.state import ScrubStatus
from support.broker_process import BrokerProcess, broker_process, until
from support.command_line import Shell
from support.patience import PATIENCE_S
from support.running import short_directory
from support.snapshots.ledgers import change_rows, make_ledger

OLD = 30
"""A row far below the newest thousand, which a start checks."""


QUIET = {"LIFEBUS_RETENTION_KEEP_DAYS": "0", "LIFEBUS_TICKS_ENABLED": "false"}
"""The receipts are old, and are neither dropped nor added to."""


async def scrub_of(broker: BrokerProcess) -> ScrubStatus:
    """What `status` says of the scrub."""
    async with lifebus.connect(runtime_dir=broker.runtime_dir) as bus:
        found = (await bus.status()).scrub
    assert found is not None
    return found


async def test_old_damage_is_found_at_idle_named_and_still_known_after_a_restart() -> None:
    with short_directory() as directory:
        state = directory / "state"
        state.mkdir(mode=0o700)
        await anyio.to_thread.run_sync(make_ledger, state / "ledger.db", 1_100)
        change_rows(state / "ledger.db", f"UPDATE rows SET status = 'other' WHERE position = {OLD}")
        async with broker_process(directory, **QUIET) as broker:
            await until(lambda: '"scrub_found"' in broker.log)
            (found,) = (await scrub_of(broker)).faults
            assert found.startswith(f"row {OLD}: ")
            logged = [json.loads(line) for line in broker.log.splitlines() if '"scrub_found"' in line]
            assert [one["finding"] for one in logged] == [found]
            assert await broker.terminate() == 0
        ran = await anyio.to_thread.run_sync(Shell(directory).run, "doctor", "--json")
        (check,) = [one for one in ran.json if one["check"] == "scrub"]
        assert (check["state"], check["evidence"]) == ("bad", found)
        async with broker_process(directory, **QUIET) as broker:
            assert (await scrub_of(broker)).faults == (found,)


async def test_a_broker_stops_at_once_in_the_middle_of_a_scrub() -> None:
    with short_directory() as directory:
        (directory / "state").mkdir(mode=0o700)
        await anyio.to_thread.run_sync(make_ledger, directory / "state" / "ledger.db", 600)
        async with broker_process(directory, **QUIET) as broker:
            await until(lambda: '"scrub_begins"' in broker.log)
            assert (await scrub_of(broker)).part == "rows"
            with anyio.fail_after(PATIENCE_S):  # the scrub itself is not over then, as its file says
                assert await broker.terminate() == 0
        kept = json.loads((directory / "state" / "scrub.json").read_bytes())
        assert kept["ended_epoch_s"] is None
        assert kept["began_epoch_s"] is not None
