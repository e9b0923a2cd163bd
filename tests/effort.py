"""How much a test does: a little within the suite, a lot under `make torture`."""

import os

__all__ = ["TORTURE", "effort"]

TORTURE = os.environ.get("LIFEBUS_TORTURE") == "1"
"""Whether this run may take its time."""


def effort(ci: int, torture: int) -> int:
    """Return the first number within the suite, the second under `make torture`."""
    return torture if TORTURE else ci
