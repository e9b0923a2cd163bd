"""How full a context window is, as a level with hysteresis (docs/contract.md 2.5).  Pure, integers only.

A level is reached at its threshold and left only some points below it, so that a session which sits on a threshold
says so once.  Without a known window there is no percentage and no level.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from lifebus_contract import PressureLevel

_Percent = Annotated[int, Meta(ge=1, le=100)]

LEVELS: Final = (PressureLevel.LOW, PressureLevel.MODERATE, PressureLevel.HIGH, PressureLevel.CRITICAL)
"""The levels, emptiest first."""


class Thresholds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At how many percent a level begins, and how many points below it is left again.

    Raises:
        ValueError: the thresholds do not rise, or the margin reaches below the lowest of them.
    """

    moderate_pct: _Percent = 60
    """Below this the pressure is `low`."""
    high_pct: _Percent = 80
    """From here on it is `high`."""
    critical_pct: _Percent = 92
    """From here on it is `critical`."""
    rearm_pct: Annotated[int, Meta(ge=0, le=50)] = 5
    """How many points below its threshold a level is left: no receipt for every token around it."""

    def __post_init__(self) -> None:
        if not self.rearm_pct < self.moderate_pct < self.high_pct < self.critical_pct:
            raise ValueError("thresholds must rise: rearm_pct < moderate_pct < high_pct < critical_pct")

    def begins_at(self, level: PressureLevel) -> int:
        """Return the percentage at which a level begins."""
        return (0, self.moderate_pct, self.high_pct, self.critical_pct)[LEVELS.index(level)]


def percent_of(used_tokens: int, window_tokens: int | None) -> int | None:
    """Return how full the window is in whole percent, rounded down and at most 100; None without a window."""
    if not window_tokens:
        return None
    # A harness may count tokens that its window does not.
    return min(100, used_tokens * 100 // window_tokens)


def next_level(
    held: PressureLevel | None, used_tokens: int, window_tokens: int | None, thresholds: Thresholds
) -> PressureLevel | None:
    """Return the level after an observation: `held` as long as it is not clearly left; None without a window."""
    if not window_tokens:
        return None
    reached = _reached(used_tokens, window_tokens, thresholds, margin=0)
    # Upwards at once, downwards only below the margin.
    if held is None or LEVELS.index(reached) >= LEVELS.index(held):
        return reached
    still = _reached(used_tokens, window_tokens, thresholds, margin=thresholds.rearm_pct)
    return min(held, still, key=LEVELS.index)


def _reached(used: int, window: int, thresholds: Thresholds, *, margin: int) -> PressureLevel:
    """Return the highest level whose threshold, less the margin, is reached."""
    return next(
        level
        for level in reversed(LEVELS)
        # Multiplied instead of divided: no rounding, and no floats in a reducer.
        if level is PressureLevel.LOW or used * 100 >= (thresholds.begins_at(level) - margin) * window
    )
