"""The runtime of lifebus, over a broker of its own that is killed with it, against the contract's checklist."""

import sys

from lifebus.loa.conformance.check import CheckVerdict
from lifebus.loa.conformance.checks import CHECKS
from lifebus.loa.conformance.suite import examine
from support.patience import PATIENCE_S

COMMAND = (sys.executable, "-m", "lifebus.loa", "--own-broker")
UNBUILT = ("signals.", "compaction.estimate")
"""What the broker does not know yet: what is left for a step."""


async def test_the_runtime_of_lifebus_passes_every_check() -> None:
    built = [check.name for check in CHECKS if not check.name.startswith(UNBUILT)]
    found = await examine(COMMAND, only=built, deadline_s=PATIENCE_S)
    others = [finding for finding in found if finding.verdict is not CheckVerdict.PASSED]
    assert others == []
    assert {finding.check for finding in found} == set(built)
