"""What one check of `lifebus doctor` found."""

from typing import Literal

import msgspec


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found: evidence always, a fix where something is to be done."""

    check: str
    state: Literal["ok", "warn", "bad"]
    evidence: str
    fix: str = ""
