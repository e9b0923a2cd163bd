"""How much a test does: what every run can afford, or what `make torture` has the time for."""

import os
from typing import Final

TORTURE: Final = float(os.environ.get("LIFEBUS_TORTURE") or 0)
"""The share of the long runs that is asked for: 0 in `make test`, 1 in `make torture`."""


def effort(ci: int, torture: int) -> int:
    """Return how many cycles, seeds or seconds a test takes: `ci`, and with LIFEBUS_TORTURE=1 set, `torture`.

    LIFEBUS_TORTURE=0.1 asks for a tenth of `torture`, never for less than `ci`.  Every module that has the name
    `effort` is run by `make torture`, without the time limit of its tests; so is every property.
    """
    return max(ci, round(torture * TORTURE))
