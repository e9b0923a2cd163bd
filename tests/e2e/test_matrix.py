"""Every scenario with every harness: what has to be recorded stands in clients/lifebus/live/expected.toml."""

import os

import pytest

from lifebus.live.expected import expectation
from lifebus.live.programs import PROGRAMS
from lifebus.live.report import described
from lifebus.live.runner import run_scenario
from lifebus.live.scenarios import SCENARIOS
from support.e2e.pinned import PINNED
from support.e2e.results import record

CELLS = [
    pytest.param(harness, scenario, id=f"{harness}-{scenario}")
    for harness in os.environ.get("LIFEBUS_E2E_MATRIX", ",".join(PROGRAMS)).split(",")
    for scenario in SCENARIOS
    if not expectation(scenario, harness).cannot
]


@pytest.mark.parametrize(("harness", "scenario"), CELLS)
async def test_what_a_real_harness_did_is_what_was_recorded(harness: str, scenario: str) -> None:
    expected = expectation(scenario, harness)
    cell = await run_scenario(PROGRAMS[harness], PINNED[harness].program, SCENARIOS[scenario], expected)
    record(cell, PINNED[harness].version)
    assert cell.holds, "\n".join(described(cell))
