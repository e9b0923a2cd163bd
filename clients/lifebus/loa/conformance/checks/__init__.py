"""The checks, a module for each part of the contract, in the order of the contract's checklist."""

from typing import Final

from lifebus.loa.conformance.check import RuntimeCheck
from lifebus.loa.conformance.checks import (
    checkpoints,
    codes,
    escalations,
    files,
    optional,
    protocol,
    retries,
    signals,
    workflow,
)

CHECKS: Final[tuple[RuntimeCheck, ...]] = (
    *protocol.CHECKS,
    *codes.CHECKS,
    *retries.CHECKS,
    *checkpoints.CHECKS,
    *signals.CHECKS,
    *escalations.CHECKS,
    *files.CHECKS,
    *optional.CHECKS,
    *workflow.CHECKS,
)
"""Every check; what a check needs stands before it."""
