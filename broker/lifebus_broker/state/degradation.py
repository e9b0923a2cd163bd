"""Which capabilities of a session are lost for which cause, and when they are back.  Pure.

A cause is a kind of silence or defect.  Each takes certain capabilities away while it lasts.  Nothing is lost that the
manifest did not claim, and only what was lost for a cause comes back when that cause has passed.

The words are those of docs/contract.md 4.5.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from lifebus_broker.claims import claim_of
from lifebus_contract import (
    AdapterManifest,
    Degradation,
    FailureClass,
    RetryClass,
    SupportState,
    tighten,
)


class Cause(StrEnum):
    """Why capabilities are lost."""

    HOOKS_SILENT = "hooks_silent"
    TELEMETRY_MISSING = "telemetry_missing"
    TELEMETRY_UNREADABLE = "telemetry_unreadable"
    APP_SILENT = "app_silent"
    MANIFEST_CHANGED = "manifest_changed"


_FRAMES: Final = ("event:frame.opening", "event:frame.opened", "event:frame.ending", "event:frame.ended")
_PLACEMENTS: Final = ("placement:pre_session", "placement:pre_frame_leading", "placement:pre_frame_trailing")
_PRESSURE: Final = ("context_pressure", "event:context.pressure_observed")

# Only what the silent source alone reports: other sources go on.
AFFECTED: Final[dict[Cause, tuple[str, ...]]] = {
    Cause.HOOKS_SILENT: (*_FRAMES, *_PLACEMENTS),
    Cause.TELEMETRY_MISSING: _PRESSURE,
    Cause.TELEMETRY_UNREADABLE: _PRESSURE,
    Cause.APP_SILENT: _FRAMES,
}
"""The capabilities that a cause takes away; for a changed manifest they are those that it no longer claims."""

_RETRY: Final = {
    Cause.HOOKS_SILENT: RetryClass.RETRY_AFTER_RECONFIGURE,
    Cause.TELEMETRY_MISSING: RetryClass.RETRY_AFTER_RECONFIGURE,
    Cause.TELEMETRY_UNREADABLE: RetryClass.RETRY_AFTER_RECONFIGURE,
}
"""What has to happen before a retry; the other causes may pass by themselves, which the next poll shows."""


class SilenceLimits(Struct, frozen=True, kw_only=True):
    """How much silence is a loss of capabilities; the settings `silence.*` are these."""

    missing_polls: Annotated[int, Meta(ge=1, le=1_000)] = 2
    """Consecutive ticks without a telemetry file, after which pressure is `unavailable`."""
    unreadable_records: Annotated[int, Meta(ge=1, le=1_000)] = 3
    """Unreadable telemetry records in a row, after which pressure is `unavailable`."""
    hook_ticks: Annotated[int, Meta(ge=1, le=1_000)] = 3
    """Ticks since telemetry showed work that no hook reported, after which hooks count as silent."""
    app_s: Annotated[int, Meta(ge=1, le=86_400)] = 600
    """Seconds after which an app that reports by itself, silent in an open frame, counts as gone."""


class Health(Struct, frozen=True, kw_only=True):
    """What one tick knows of a session's sources.

    `missing_polls` counts consecutive polls without a telemetry file that was there or was named; `hung_polls` those
    that got no answer in time.  `unreadable_records` stand at a file's end.  `uncovered_ticks` counts ticks since the
    telemetry showed work that no hook reported.  `app_silent_s` is how long an app has said nothing in an open frame.
    `evidence` says for each cause in a few words what was seen.
    """

    missing_polls: int = 0
    hung_polls: int = 0
    unreadable_records: int = 0
    uncovered_ticks: int = 0
    app_silent_s: int = 0
    evidence: Mapping[Cause, str] = {}


def causes_of(health: Health, limits: SilenceLimits) -> dict[Cause, str]:
    """Return the causes that hold now, each with its evidence."""
    counted = {
        Cause.HOOKS_SILENT: (health.uncovered_ticks, limits.hook_ticks, "ticks with work that no hook told of"),
        Cause.TELEMETRY_MISSING: (
            max(health.missing_polls, health.hung_polls),
            limits.missing_polls,
            "consecutive polls without the telemetry file",
        ),
        Cause.TELEMETRY_UNREADABLE: (
            health.unreadable_records,
            limits.unreadable_records,
            "unreadable telemetry records in a row",
        ),
        Cause.APP_SILENT: (health.app_silent_s, limits.app_s, "seconds of silence in an open frame"),
    }
    return {
        # The counted sentence is used where the source has nothing better to say.
        cause: health.evidence.get(cause) or f"{count} {what}"
        for cause, (count, limit, what) in counted.items()
        if count >= limit
    }


def lost(
    manifest: AdapterManifest, cause: Cause, evidence: str, at_epoch_s: int, held: Mapping[str, SupportState]
) -> tuple[Degradation, ...]:
    """Return what a cause takes away now; empty where it was never claimed or is gone already."""
    return tuple(
        _change(capability, _present(manifest, capability, held), SupportState.UNAVAILABLE, evidence, at_epoch_s, cause)
        for capability in AFFECTED[cause]
        # What is lost for another cause is not lost twice, so it does not come back twice either.
        if _present(manifest, capability, held) is not SupportState.UNAVAILABLE
    )


def regained(
    manifest: AdapterManifest, cause: Cause, evidence: str, at_epoch_s: int, capabilities: Sequence[str]
) -> tuple[Degradation, ...]:
    """Return what is back once a cause has passed: `capabilities` are those it had taken away."""
    return tuple(
        _change(capability, SupportState.UNAVAILABLE, claim_of(manifest, capability), evidence, at_epoch_s, cause)
        for capability in capabilities
        if claim_of(manifest, capability) is not SupportState.UNAVAILABLE
    )


def _present(manifest: AdapterManifest, capability: str, held: Mapping[str, SupportState]) -> SupportState:
    return held.get(capability, claim_of(manifest, capability))


def _change(  # noqa: PLR0917  the fields of a degradation
    capability: str, previous: SupportState, current: SupportState, evidence: str, at_epoch_s: int, cause: Cause
) -> Degradation:
    return Degradation(
        capability=capability,
        current_support=current,
        event="capability.degraded",
        # The contract's limit.
        evidence=evidence[:1024],
        observed_at_epoch_s=at_epoch_s,
        previous_support=previous,
        retry_class=tighten(FailureClass.CAPABILITY_DEGRADED, _RETRY.get(cause)),
    )
