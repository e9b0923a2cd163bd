"""The hooks that lifebus makes itself are known to every adapter, and mean the same everywhere."""

from typing import Any

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.own_hooks import APP_SERVER_END, CANARY, HOOK_CALLS_LOST, WRAPPER_END, WRAPPER_START
from lifebus_contract import Emission
from support.adapters.calls import call, ids


def emissions(adapter_id: str, hook: str, **payload: Any) -> tuple[Emission, ...]:
    return ADAPTERS[adapter_id].read(call(adapter_id, payload, hook), ids()).emissions


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_a_canary_is_one_tick_without_a_session_that_carries_its_nonce(adapter_id: str) -> None:
    (tick,) = emissions(adapter_id, "Stop", hook_event_name=CANARY, canary="n-1")
    assert (tick.request.event, tick.request.harness_session_id) == ("supervisor.tick", None)
    assert tick.telemetry == {"source_hook": CANARY, "canary": "n-1"}
    assert [warning.code for warning in tick.warnings] == ["identity_unavailable", "event_id_synthesized"]


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_a_wrapper_reports_a_run_and_no_session(adapter_id: str) -> None:
    opened = emissions(adapter_id, WRAPPER_START, run_id="run-7")
    closed = emissions(adapter_id, WRAPPER_END, run_id="run-7", exit_code=3)
    assert [one.request.event for one in opened] == ["session.starting", "session.started"]
    assert [one.request.event for one in closed] == ["session.ending", "session.ended"]
    for one in (*opened, *closed):
        assert one.request.integration_mode == "launcher_wrapper"
        assert (one.request.harness_run_id, one.request.harness_session_id) == ("run-7", None)
        assert "identity_unavailable" in [warning.code for warning in one.warnings]
    assert closed[0].telemetry["exit_code"] == 3


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_every_adapter_claims_the_mode_of_the_wrapper(adapter_id: str) -> None:
    manifest = ADAPTERS[adapter_id].registered.manifest
    for one in emissions(adapter_id, WRAPPER_START, run_id="r"):
        assert one.request.integration_mode in manifest.integration_modes
        assert one.request.integration_mode in manifest.lifecycle_events[one.request.event].modes


def test_the_payload_names_the_canary_also_through_a_hook_of_another_name() -> None:
    reading = ADAPTERS["openclaw"].read(call("openclaw", {"hook": CANARY, "canary": "n"}, "agent_end"), ids())
    assert (reading.hook, reading.session) == (CANARY, None)
    assert ADAPTERS["claude"].render(call("claude", {"hook_event_name": CANARY}, "Stop"), ()).stdout == b""


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_an_observers_last_word_is_one_gap_without_a_session_that_says_how_much_is_missing(adapter_id: str) -> None:
    ending = {"run_id": "codex-1", "exit_code": -9, "missed_messages": 7, "missed_bytes": 1_000}
    (gap,) = emissions(adapter_id, APP_SERVER_END, hook_event_name=APP_SERVER_END, **ending)
    assert (gap.request.event, gap.request.harness_session_id) == ("receipt.gap_detected", None)
    assert gap.request.harness_run_id == "codex-1"
    assert gap.telemetry == {
        "source_hook": APP_SERVER_END,
        "exit_code": -9,
        "missed_messages": 7,
        "missed_bytes": 1_000,
    }


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_lost_hook_calls_are_one_gap_without_a_session_that_says_how_many(adapter_id: str) -> None:
    (gap,) = emissions(adapter_id, HOOK_CALLS_LOST, hook_event_name=HOOK_CALLS_LOST, missed_messages=3)
    assert (gap.request.event, gap.request.harness_session_id) == ("receipt.gap_detected", None)
    assert gap.telemetry == {"source_hook": HOOK_CALLS_LOST, "missed_messages": 3}
