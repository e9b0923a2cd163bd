"""All checks, by name, and the run of them all."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from lifebus_adapters.conformance import (
    hostile_checks,
    manifest_checks,
    reading_checks,
    rendering_checks,
    telemetry_checks,
)
from lifebus_adapters.conformance.subject import Check, Subject
from lifebus_contract import LifebusError

_SHOWN: Final = 3
_CHARACTERS: Final = 300

_ALL: Final[tuple[tuple[str, tuple[Check, ...]], ...]] = (
    (
        "manifest",
        (
            manifest_checks.is_valid,
            manifest_checks.agrees_with_itself,
            manifest_checks.every_hook_has_an_example,
            manifest_checks.every_claim_has_an_example,
        ),
    ),
    (
        "reading",
        (
            reading_checks.events_are_the_expected_ones,
            reading_checks.silent_hooks_yield_nothing,
            reading_checks.events_are_claimed,
            reading_checks.events_share_an_invocation,
            reading_checks.events_are_in_causal_order,
            reading_checks.messages_are_valid,
            reading_checks.keys_are_distinct_and_stable,
            reading_checks.frames_are_nested_rightly,
            reading_checks.identity_is_as_claimed,
            reading_checks.private_text_stays_behind,
            reading_checks.same_call_gives_the_same,
            reading_checks.late_calls_are_marked,
        ),
    ),
    (
        "hostile",
        (
            hostile_checks.cut_off_payloads_are_refused,
            hostile_checks.nonsense_is_refused,
            hostile_checks.unknown_hooks_are_refused,
            hostile_checks.oversized_payloads_are_refused,
            hostile_checks.large_payloads_do_no_harm,
            hostile_checks.strange_values_do_no_harm,
            hostile_checks.nothing_hostile_is_remembered,
        ),
    ),
    (
        "rendering",
        (
            rendering_checks.no_delivery_means_silence,
            rendering_checks.shown_text_is_one_short_line,
            rendering_checks.deaf_hooks_get_nothing,
            rendering_checks.slots_are_claimed,
            rendering_checks.answers_are_exact,
            rendering_checks.awkward_text_arrives_whole,
            rendering_checks.limits_are_kept,
        ),
    ),
    (
        "telemetry",
        (telemetry_checks.records_are_read_or_refused, telemetry_checks.databases_are_read_or_refused),
    ),
)

CHECKS: Final[dict[str, Check]] = {f"{group}.{check.__name__}": check for group, checks in _ALL for check in checks}
"""Every check, by group and name, in the order in which they are run."""


class CheckFinding(Struct, frozen=True, kw_only=True):
    """What one check found: `evidence` says what holds, or what does not and how often."""

    name: str
    ok: bool
    evidence: str


def examine(subject: Subject, only: Sequence[str] = ()) -> list[CheckFinding]:
    """Run every check, or `only` those of these names; one that an exception breaks off has failed."""
    return [_run(name, check, subject) for name, check in CHECKS.items() if not only or name in only]


def _run(name: str, check: Check, subject: Subject) -> CheckFinding:
    faults: list[str] = []
    try:
        faults.extend(check(subject))
    except LifebusError as fault:
        faults.append(f"the adapter refuses a good call: {fault.detail}")
    except Exception as fault:  # noqa: BLE001  whatever an adapter does, the suite goes on
        faults.append(f"the adapter raises {type(fault).__name__}: {str(fault)[:_CHARACTERS]}")
    if not faults:
        return CheckFinding(name=name, ok=True, evidence=check.__doc__ or "")
    # One broken rule may have a fault for every mutation of every example.
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return CheckFinding(name=name, ok=False, evidence="; ".join(text[:_CHARACTERS] for text in faults[:_SHOWN]) + more)
