"""What one check of `lifebus doctor` found.

Above: checks, harness_checks, doctor.  Below: msgspec.
"""

from typing import Literal

import msgspec

__all__ = ["Finding"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found: evidence always, a fix where something is to be done."""

    check: str
    state: Literal["ok", "warn", "bad"]
    evidence: str
    fix: str = ""
