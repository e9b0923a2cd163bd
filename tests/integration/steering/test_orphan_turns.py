"""A turn of a worker whose broker does not come back is ended by its observer, in real processes.

The time that a broker has to come back is shortened in the observer alone (`patient_observer/sitecustomize.py`).
"""

import lifebus
from lifebus_contract.jobs import JobState
from support.broker_process import broker_process, until
from support.integration.steering import app_server, lines_of
from support.integration.workers import begun, job, turns_of
from support.patience import PATIENCE_S
from support.running import short_directory, until_answered


async def test_without_a_broker_the_observer_ends_the_workers_turn_and_leaves_that_of_the_client() -> None:
    with short_directory() as base:
        async with app_server(base, TEST_OWNER_S="0.1") as (client, kept, _):
            await client.begin("work")
            async with broker_process(base) as broker:
                async with lifebus.connect("test", runtime_dir=base / "run", timeout=PATIENCE_S) as bus:
                    queued = (await bus.jobs.enqueue(job("work"))).job.id
                    await begun(kept)
                    await until_answered(lambda: bus.jobs.show(queued), lambda one: one.running_context.turn_id)
                assert turns_of(lines_of(kept)) == ["turn/start"]
                await broker.kill()
            await until(lambda: "turn/interrupt" in turns_of(lines_of(kept)))
            async with (
                broker_process(base),
                lifebus.connect("test", runtime_dir=base / "run", timeout=PATIENCE_S) as bus,
            ):
                await begun(kept, 2)
                await client.say(method="finish", params={"threadId": "t3", "text": "done"})
                ended = await bus.jobs.wait(queued)
            assert turns_of(lines_of(kept), "t1") == ["turn/start"]
        assert (ended.state, ended.attempts, ended.result["outputText"]) == (JobState.COMPLETED, 2, "done")
        assert turns_of(lines_of(kept)) == ["turn/start", "turn/interrupt"], "it is ended once"
