"""Every claim of a v1 manifest is paired with a proof that runs the code behind it (docs/contract.md 14).

A claim without a proof fails here, and so does a proof of something that nobody claims.
"""

from typing import Final

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_contract import ConformanceLevel
from support.adapters import app_server_proofs, delivery_proofs, proofs, renewal_proofs, telemetry_proofs
from support.adapters.claims import claims_of
from support.adapters.delivery_proofs import no_hook_takes, takes_at_most
from support.adapters.proofs import PROMPT, START, Proof, derived_event, native_event
from support.adapters.telemetry_proofs import events_come_by

V1: Final = [name for name, item in ADAPTERS.items() if item.registered.conformance is ConformanceLevel.V1]

PROOFS: Final[dict[str, Proof]] = {
    "event:session.starting=native": native_event("session.starting"),
    "event:session.started=synthesized": derived_event("session.started", "session.starting"),
    "event:frame.opening=native": native_event("frame.opening"),
    "event:frame.opened=synthesized": derived_event("frame.opened", "frame.opening"),
    "event:context.pressure_observed=synthesized": telemetry_proofs.levels_come_from_the_file,
    "event:context.pressure_observed=partial": proofs.pressure_before_compaction,
    "event:context.compacted=native": native_event("context.compacted"),
    "event:frame.ending=native": native_event("frame.ending"),
    "event:frame.ended=synthesized": derived_event("frame.ended", "frame.ending"),
    "event:session.ending=native": native_event("session.ending"),
    "event:session.ended=synthesized": derived_event("session.ended", "session.ending"),
    "event:supervisor.tick=synthesized": telemetry_proofs.ticks_are_made_by_the_supervisor,
    "event:capability.degraded=synthesized": telemetry_proofs.losses_are_told_by_supervision,
    "event:receipt.emitted=unavailable": proofs.receipts_are_fanned_out_and_ask_nobody,
    "event:receipt.gap_detected=synthesized": proofs.jumps_of_a_given_sequence_are_noticed,
    "placement:pre_session=native": delivery_proofs.context_at_session_start,
    "placement:pre_frame_leading=unavailable": no_hook_takes("pre_frame_leading"),
    "placement:pre_frame_trailing=native": delivery_proofs.context_after_the_prompt,
    "placement:tool_result=unavailable": no_hook_takes("tool_result"),
    "placement:manual_operator=unavailable": no_hook_takes("manual_operator"),
    "max_bytes:pre_session=8192": takes_at_most("pre_session", START, "session.starting"),
    "max_bytes:pre_frame_trailing=8192": takes_at_most("pre_frame_trailing", PROMPT, "frame.opening"),
    "context_pressure=synthesized": telemetry_proofs.levels_come_from_the_file,
    "context_pressure=partial": telemetry_proofs.levels_need_a_known_window,
    "native_receipts=unavailable": proofs.receipts_are_lifebuss_own,
    "lifeloop_synthesized_receipts=native": proofs.receipts_are_lifebuss_own,
    "receipt_ledger=synthesized": proofs.the_ledger_numbers_and_keeps,
    "harness_session_id=native": proofs.session_ids_are_the_harnesss,
    "harness_run_id=unavailable": proofs.no_run_id,
    "harness_task_id=native": proofs.turn_ids_are_the_harnesss,
    "approval_surface=partial": proofs.approvals_are_observed_and_not_answered,
    "renewal.reset.native=unavailable": renewal_proofs.no_hook_resets,
    "renewal.reset.wrapper_mediated=synthesized": renewal_proofs.a_turns_end_prepares_and_a_start_completes,
    "renewal.reset.manual=manual": renewal_proofs.an_operator_prepares_by_hand,
    "renewal.continuation.observation=native": renewal_proofs.a_hook_tells_of_the_start_after_a_reset,
    "renewal.continuation.payload_delivery=synthesized": renewal_proofs.a_token_comes_back_byte_for_byte,
    "profile=codex-renewal": renewal_proofs.without_the_profile_nothing_is_renewed,
    "mode=native_hook": proofs.hooks_are_the_way_in,
    "mode=telemetry_only": telemetry_proofs.files_tell_what_hooks_do_not,
    "mode=reference_adapter": app_server_proofs.app_servers_tell_what_the_mode_claims,
    "mode=launcher_wrapper": events_come_by(
        "launcher_wrapper", "session.starting", "session.started", "session.ending", "session.ended"
    ),
    "mode=manual_skill": events_come_by(
        "manual_skill", "session.started", "frame.opened", "frame.ended", "session.ended"
    ),
    "failure_mode=invalid_request": proofs.nonsense_is_refused,
    "failure_mode=payload_too_large": delivery_proofs.too_much_context_is_refused,
    "telemetry:rollout=native": telemetry_proofs.the_file_is_read,
    "telemetry:transcript=native": telemetry_proofs.the_file_is_read,
    "telemetry:status_line=partial": telemetry_proofs.the_status_line_tells_the_window,
}
"""What proves each claim."""

CLAIMS: Final = [(name, claim) for name in V1 for claim in claims_of(ADAPTERS[name].registered.manifest)]


def test_codex_and_claude_are_the_v1_adapters() -> None:
    assert V1 == ["codex", "claude"]


@pytest.mark.parametrize(("adapter_id", "claim"), CLAIMS)
async def test_a_claim_of_a_v1_manifest_is_true(adapter_id: str, claim: str) -> None:
    assert claim in PROOFS, f"nothing proves `{claim}`"
    await PROOFS[claim](adapter_id)


def test_no_proof_is_left_of_a_claim_that_nobody_makes() -> None:
    assert set(PROOFS) == {claim for _, claim in CLAIMS}
