"""A flow of five phases, run by the real commands, of which anything is killed at each boundary and at random moments.

What is true is said by the phases themselves, in a file that they append to and sync (`support.crash.tormented_flow`).
"""

import random
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import pytest

from support.crash.torment_box import TormentBox
from support.crash.tormented_flow import NEEDS
from support.effort import effort
from support.inbox.http_receiver import receiving
from support.running import short_directory

VICTIMS = ("child", "shim", "command", "broker", "machine")
POINTS = [f"{what}.{name}" for name in NEEDS for what in ("start", "end")]
CASES = [(victim, point, here) for here in (False, True) for point in POINTS for victim in VICTIMS]
WRITES = [
    f"{when}:{number}:{how}" for number in range(1, 16) for when in ("before", "after") for how in ("kill", "stop")
]


T = TypeVar("T")


def some(cases: Sequence[T], ci: int) -> list[T]:
    """Return all cases under `make torture`, else so many of them from end to end."""
    count = min(len(cases), effort(ci, len(cases)))
    return [cases[at * len(cases) // count] for at in range(count)]


@contextmanager
def box(*, here: bool, first_pause: str = "50ms") -> Generator[TormentBox]:
    with short_directory() as directory, receiving() as receiver:
        found = TormentBox(directory, receiver, here=here, first_pause=first_pause)
        try:
            yield found
        finally:
            found.close()


@pytest.mark.parametrize(("victim", "point", "here"), some(CASES, 7))
def test_whatever_is_killed_at_a_boundary_the_flow_comes_to_its_end(victim: str, point: str, here: bool) -> None:
    with box(here=here) as torment:
        torment.hold(point)
        torment.start_broker()
        torment.start_command()
        torment.go_on(lambda: torment.held is not None)
        torment.kill(victim)
        torment.finish()


@pytest.mark.parametrize("plan", some(WRITES, 4))
def test_a_broker_or_all_killed_at_a_write_the_flow_comes_to_its_end(plan: str) -> None:
    with box(here=False) as torment:
        torment.start_broker(plan)
        torment.start_command()
        torment.go_on(lambda: torment.is_over or torment.broker is None or torment.is_down(torment.broker))
        torment.kill("machine" if plan.endswith("stop") else "broker")
        torment.finish()


@pytest.mark.parametrize("plan", some([one for one in WRITES if one.endswith("kill")], 2))
def test_an_owner_of_its_own_run_killed_at_a_record_the_flow_comes_to_its_end(plan: str) -> None:
    with box(here=True) as torment:
        torment.start_broker()
        torment.start_command(plan)
        first = torment.command
        assert first is not None
        torment.go_on(lambda: first.poll() is not None)
        torment.finish()


@pytest.mark.parametrize("seed", range(effort(6, 200)))
def test_whatever_is_killed_at_random_moments_the_flow_comes_to_its_end(seed: int) -> None:
    chance = random.Random(seed)
    with box(here=chance.random() < 0.4) as torment:
        torment.start_broker()
        torment.start_command()
        for _ in range(chance.randint(1, 4)):
            moment = time.monotonic() + chance.uniform(0, 0.9)
            torment.go_on(lambda until=moment: time.monotonic() >= until)  # type: ignore[misc]
            for victim in chance.sample(VICTIMS, chance.choice((1, 1, 2))):
                torment.kill(victim, chance)
            torment.restart()
        torment.finish()
