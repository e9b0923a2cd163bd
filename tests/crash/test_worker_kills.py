"""Turns of workers while broker, proxy, app-server, observer and client are killed: each job is done once, or unknown.

Held to it: no job is lost, none comes to its end twice, none is left running without an owner, and each ends by one
state with its event.
"""

import os
import random

from support.broker_process import until
from support.crash.worker_world import PROJECTS, check, worker_world
from support.effort import effort
from support.patience import PATIENCE_S
from support.running import short_directory

KILLS = effort(5, 200)
BEGUN = 0.8
"""How often a turn has begun since the last kill."""

VICTIMS = ("broker", "proxy", "server", "observer", "client")


async def test_a_job_that_is_a_workers_turn_is_done_once_whoever_is_killed_meanwhile() -> None:
    seed = int(os.environ.get("LIFEBUS_TEST_SEED") or random.randrange(2**32))
    print(f"seed {seed}")  # noqa: T201  shown when it fails; set LIFEBUS_TEST_SEED to repeat it
    chance = random.Random(seed)
    with short_directory() as base:
        async with worker_world(base, chance) as world:
            for number in range(KILLS):
                before = world.begun()
                # At least one of them has not begun yet: only so many run at once.
                await world.queue(2 * PROJECTS - await world.open_jobs())
                if chance.random() < BEGUN:
                    await until(lambda: world.begun() > before, 3 * PATIENCE_S)  # noqa: B023  awaited here
                await world.go_on_a_little()
                # In the first round each of them; then whoever it hits.
                await world.kill(VICTIMS[number] if number < len(VICTIMS) else chance.choice(VICTIMS))
                await world.go_on()
            jobs = await world.ended()
            await until(world.is_idle)
            await world.close()
            ends = check(world, jobs)
    print(f"{KILLS} kills, {dict(ends)}")  # noqa: T201  how many ended in which way
