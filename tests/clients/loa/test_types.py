"""The contract's types: field names as the contract spells them, times with a zone, modifications only with modify."""

from typing import Any

import msgspec
import pytest

from lifebus.loa.types import (
    CompactionOptions,
    Cost,
    EscalationRequest,
    EscalationResponse,
    LoaEvent,
    LoaSignals,
    StandardEvent,
)

RESPONSE = {"responded_at": "2026-02-01T10:00:00Z", "responder": "ada", "action": "proceed", "message": "go"}


def test_documents_with_the_contracts_own_names_are_read_and_written_alike() -> None:
    documents: list[tuple[type[Any], dict[str, Any]]] = [
        (
            EscalationRequest,
            {
                "reason": "r",
                "phase": "audit",
                "context": {
                    "last_decisions": [
                        {"description": "d", "reasoning": "w", "timestamp": "2026-02-01T10:00:00+01:00"}
                    ],
                    "artifacts": [{"path": "a", "size_bytes": 1, "checksum": "ab", "description": "x"}],
                    "errors": [{"message": "m", "phase": "audit", "recoverable": False}],
                },
                "suggested_actions": ["look"],
            },
        ),
        (EscalationResponse, RESPONSE),
        (EscalationResponse, {**RESPONSE, "action": "modify", "modifications": {"depth": [1, {"a": None}]}}),
        (CompactionOptions, {"aggressive": True, "preservePhases": ["design"]}),
        (
            Cost,
            {"phase": "p", "tokens_input": 1, "tokens_output": 2, "api_calls": 1, "estimated_usd": 0.25},
        ),
        (LoaEvent, {"event": "phase_start", "timestamp": "2026-02-01T10:00:00Z"}),
        (
            LoaSignals,
            {
                "context_tokens_available": 1,
                "context_tokens_used": 2,
                "time_remaining_ms": None,
                "retry_count": 0,
                "max_retries": 3,
                "is_approaching_limit": False,
            },
        ),
    ]
    for kind, document in documents:
        assert msgspec.json.decode(msgspec.json.encode(msgspec.convert(document, kind))) == document


@pytest.mark.parametrize("time", ["2026-02-01T10:00:00", "2026-13-01T10:00:00Z", "yesterday", ""])
def test_a_time_without_a_zone_is_refused(time: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="responded_at"):
        msgspec.convert({**RESPONSE, "responded_at": time}, EscalationResponse)


def test_only_a_modifying_answer_has_modifications() -> None:
    with pytest.raises(msgspec.ValidationError, match="modifications"):
        msgspec.convert({**RESPONSE, "modifications": {}}, EscalationResponse)


def test_the_standard_events_are_the_contracts() -> None:
    assert [event.value for event in StandardEvent] == [
        "phase_start",
        "phase_complete",
        "checkpoint_created",
        "escalation_triggered",
        "context_compaction",
    ]
