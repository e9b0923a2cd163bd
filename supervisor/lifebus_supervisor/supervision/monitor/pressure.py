"""One reading of a context: used tokens, window, percentage and level, which belong together.  Pure.

Every receipt about pressure is made of one reading (docs/supervision.md, "Pressure").  The level follows from the
reading and the level on record: one that is held is left only some points below its threshold.
"""

from typing import Any, Final

from msgspec import Struct

from lifebus_adapters.shared.telemetry import Usage
from lifebus_broker.state.pressure import Thresholds, next_level, percent_of
from lifebus_broker.state.telemetry_keys import LEVEL, PERCENT, USED
from lifebus_contract import PressureLevel
from lifebus_supervisor.supervision.monitor.telemetry import TelemetryState

_LONGEST_MODEL: Final = 128


class PressureReading(Struct, frozen=True, kw_only=True):
    """How full a context was at one time: counts in tokens, `percent` whole and rounded down.

    Without a window there is neither percentage nor level.
    """

    used_tokens: int
    used_source: str
    window_tokens: int | None
    window_source: str | None
    percent: int | None
    level: PressureLevel | None
    model: str | None


def read_pressure(
    telemetry: TelemetryState, usage: Usage, held: PressureLevel | None, thresholds: Thresholds
) -> PressureReading:
    """Return what a usage comes to; `held` is the level of the observation before."""
    window, window_source = telemetry.window_of(usage)
    return PressureReading(
        used_tokens=usage.used_tokens,
        used_source=usage.used_source,
        window_tokens=window or None,
        window_source=window_source if window else None,
        percent=percent_of(usage.used_tokens, window),
        level=next_level(held, usage.used_tokens, window, thresholds),
        model=usage.model,
    )


def pressure_facts(reading: PressureReading | None) -> dict[str, Any]:
    """Return a reading as receipts carry it (docs/contract.md 2.5); nulls where there is none."""
    if reading is None:
        return {LEVEL: None, USED: None, "context_window_tokens": None, PERCENT: None}
    facts: dict[str, Any] = {
        LEVEL: None if reading.level is None else reading.level.value,
        USED: reading.used_tokens,
        "context_window_tokens": reading.window_tokens,
        PERCENT: reading.percent,
        "used_source": reading.used_source,
    }
    if reading.model is not None:
        facts["model"] = reading.model[:_LONGEST_MODEL]
    if reading.window_source is not None:
        facts["window_source"] = reading.window_source
    return facts
