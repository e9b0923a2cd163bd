"""The runtime of lifebus, over a broker of its own that is killed with it, against the contract's whole checklist."""

import sys

from lifebus.loa.conformance.check import CheckVerdict
from lifebus.loa.conformance.suite import checklist, examine, selected
from support.patience import PATIENCE_S

COMMAND = (sys.executable, "-m", "lifebus.loa", "--own-broker")


async def test_the_runtime_of_lifebus_passes_every_check() -> None:
    found = await examine(COMMAND, deadline_s=PATIENCE_S)
    others = [finding for finding in found if finding.verdict is not CheckVerdict.PASSED]
    assert others == []
    assert len(found) == len(selected())
    assert [item for _, item, done in checklist(found) if not done] == []
