"""Rules that tie several fields of a document together."""

from typing import Any

import pytest

from lifebus_contract import (
    FRAME_EVENTS,
    KINDS,
    AdapterManifest,
    CallbackRequest,
    CallbackResponse,
    DispatchEnvelope,
    Emission,
    FailureClass,
    InvalidRequest,
    LifecycleEvent,
    PayloadEnvelope,
    PressureObservation,
    Receipt,
    ReceiptStatus,
    RetryClass,
    validate,
)
from support.golden import golden, without

TOP = {"frame_id": "f1", "frame_class": "top_level"}
SUBCALL = {"frame_id": "f2", "frame_class": "subcall", "parent_frame_id": "f1"}
REQUESTABLE = [event for event in LifecycleEvent if event is not LifecycleEvent.RECEIPT_EMITTED]


@pytest.mark.parametrize("event", sorted(FRAME_EVENTS))
def test_a_frame_event_needs_a_frame_context(event: LifecycleEvent) -> None:
    refused("request", golden("request", event=event.value, frame_context=None), "frame_context: event `frame.")


@pytest.mark.parametrize("event", [event for event in REQUESTABLE if event not in FRAME_EVENTS])
def test_any_other_event_may_do_without_a_frame_context(event: LifecycleEvent) -> None:
    assert validate(golden("request", event=event.value, frame_context=None), CallbackRequest).frame_context is None


@pytest.mark.parametrize("context", [TOP, SUBCALL])
def test_a_whole_frame_context_is_taken(context: dict[str, Any]) -> None:
    request = validate(golden("request", frame_context=context), CallbackRequest)
    assert request.frame_context is not None
    assert request.frame_context.frame_id == context["frame_id"]


@pytest.mark.parametrize(
    ("context", "rule"),
    [
        (SUBCALL | {"parent_frame_id": None}, "`subcall` frame needs `parent_frame_id`"),
        (TOP | {"parent_frame_id": "f0"}, "`top_level` frame must not have `parent_frame_id`"),
        (TOP | {"frame_id": ""}, "length >= 1"),
        ({"frame_id": "f1"}, "missing required field `frame_class`"),
        ({"frame_class": "top_level"}, "missing required field `frame_id`"),
        ({}, "missing required field"),
        (TOP | {"depth": 0}, "unknown key `$.frame_context.depth`"),
    ],
)
def test_a_half_filled_frame_context_is_refused(context: dict[str, Any], rule: str) -> None:
    refused("request", golden("request", frame_context=context), rule)


@pytest.mark.parametrize("kind", ["request", "receipt"])
def test_receipt_emitted_is_a_notification_only(kind: str) -> None:
    refused(kind, golden(kind, event="receipt.emitted"), "`receipt.emitted` is a notification")


def test_a_payload_has_a_body_or_a_reference_but_not_both() -> None:
    refused("payload", golden("payload", body="x", body_ref="store:1"), "`body` and `body_ref` are mutually exclusive")
    refused("payload", golden("payload", body=None, body_ref=None), "one of `body` and `body_ref` is needed")
    assert validate(golden("payload", body="", body_ref=None), PayloadEnvelope).body == ""


@pytest.mark.parametrize("kind", ["response", "receipt"])
def test_failed_needs_a_failure_class(kind: str) -> None:
    refused(kind, golden(kind, status="failed", failure_class=None), "needs a failure class")


@pytest.mark.parametrize("status", [status for status in ReceiptStatus if status is not ReceiptStatus.FAILED])
def test_only_a_failed_response_carries_a_failure(status: ReceiptStatus) -> None:
    refused("response", golden("response", status=status.value), "only a `failed` response")
    fine = golden("response", status=status.value, failure_class=None, retry_class=None)
    assert validate(fine, CallbackResponse).status is status


def test_responses_are_built_in_one_call() -> None:
    payload = validate(golden("payload"), PayloadEnvelope)
    done = CallbackResponse.ok(ReceiptStatus.DELIVERED, payload)
    broken = CallbackResponse.failed(FailureClass.TIMEOUT, RetryClass.DO_NOT_RETRY)
    assert (done.status, done.client_payloads, done.failure_class) == (ReceiptStatus.DELIVERED, (payload,), None)
    assert (broken.status, broken.failure_class) == (ReceiptStatus.FAILED, FailureClass.TIMEOUT)
    assert broken.retry_class is RetryClass.DO_NOT_RETRY


def test_a_supported_event_names_the_modes_it_comes_through() -> None:
    events = {"session.starting": {"support": "native", "modes": []}}
    refused("manifest", golden("manifest", lifecycle_events=events), "names at least one integration mode")
    events = {"session.starting": {"support": "native", "modes": ["launcher_wrapper"]}}
    refused("manifest", golden("manifest", lifecycle_events=events), "modes outside `integration_modes`")
    events = {"session.starting": {"support": "unavailable"}}
    assert validate(golden("manifest", lifecycle_events=events), AdapterManifest)


@pytest.mark.parametrize("window", [None, 0])
def test_tokens_without_a_window_give_no_percentage_and_no_level(window: int | None) -> None:
    refused("pressure", golden("pressure", context_window_tokens=window), "tokens without a known window")
    refused("pressure", golden("pressure", context_window_tokens=window, level=None), "tokens without a known window")
    rule = "level: without a known window there is no level"
    refused("pressure", golden("pressure", context_window_tokens=window, context_used_pct=None), rule)
    refused("pressure", golden("pressure", context_window_tokens=window, context_used_tokens=None), rule)


@pytest.mark.parametrize("numbers", [{"context_used_pct": 84}, {"context_used_tokens": 9}])
def test_adapter_time_and_one_number_are_a_pressure_observation(numbers: dict[str, int]) -> None:
    plain = {"adapter_id": "codex", "observed_at_epoch_s": 1_778_100_000}
    observation = validate(plain | numbers, PressureObservation)
    assert (observation.level, observation.context_window_tokens, observation.source) == (None, None, "")
    refused("pressure", plain, "a percentage or tokens are needed")
    for name in plain:
        refused("pressure", without(plain, name) | numbers, f"required field `{name}`")


def test_documents_cannot_be_changed() -> None:
    receipt = validate(golden("receipt"), Receipt)
    with pytest.raises(AttributeError):
        receipt.status = ReceiptStatus.OBSERVED  # type: ignore[misc]  # that it cannot be set is the point


def refused(kind: str, document: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate(document, KINDS[kind])
    assert rule in caught.value.detail


def test_a_report_of_degradations_is_taken_and_an_emission_of_that_event_may_do_without() -> None:
    report = golden("emission", "report")
    assert len(validate(report, Emission).degradations) == 2
    assert validate(without(report, "degradations"), Emission).degradations == ()


@pytest.mark.parametrize("event", [event for event in REQUESTABLE if event is not LifecycleEvent.CAPABILITY_DEGRADED])
def test_only_a_capability_degraded_emission_names_degradations(event: LifecycleEvent) -> None:
    report = golden("emission", "report")
    report["request"] |= {"event": event.value, "frame_context": TOP}
    refused("emission", report, "degradations: only a `capability.degraded` emission names degradations")


@pytest.mark.parametrize("part", ["payloads", "requirements"])
def test_a_report_of_degradations_delivers_and_requires_nothing(part: str) -> None:
    refused("emission", golden("emission", "report") | {part: golden("emission")[part]}, "neither payloads nor")


def test_a_degradation_that_changes_nothing_is_refused() -> None:
    report = golden("emission", "report")
    report["degradations"][1]["previous_support"] = "native"
    refused("emission", report, "degradations: `event:frame.ended` does not change")


def test_a_report_names_at_most_64_degradations() -> None:
    report = golden("emission", "report")
    one = report["degradations"][0]
    assert len(validate(report | {"degradations": [one] * 64}, Emission).degradations) == 64
    refused("emission", report | {"degradations": [one] * 65}, "length <= 64")


CHANGE = golden("emission", "report")["degradations"][0]
FACTS = {"telemetry": {"context_used_pct": 84}}


def dispatched(facts: Any, event: str = "capability.degraded") -> dict[str, Any]:
    """Return a dispatch with something under lifebus's own key of the metadata."""
    request = golden("request") | {"event": event, "metadata": {"mine": 1, "lifebus": facts}}
    return without(golden("dispatch") | {"request": request}, "payloads")


def test_the_facts_of_a_dispatch_are_read_and_leave_the_metadata_of_the_emitter() -> None:
    dispatch = validate(dispatched(FACTS | {"degradations": [CHANGE]}), DispatchEnvelope)
    assert dispatch.telemetry == FACTS["telemetry"]
    assert [one.capability for one in dispatch.degradations] == [CHANGE["capability"]]
    emission = dispatch.as_emission()
    assert (emission.telemetry, emission.degradations) == (dispatch.telemetry, dispatch.degradations)
    assert emission.request.metadata == {"mine": 1}
    assert DispatchEnvelope.of(emission) == dispatch


def test_a_dispatch_of_which_nothing_is_known_has_no_facts() -> None:
    dispatch = validate(golden("dispatch"), DispatchEnvelope)
    assert (dispatch.telemetry, dispatch.degradations) == ({}, ())
    assert "lifebus" not in DispatchEnvelope.of(dispatch.as_emission()).request.metadata


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        (5, "`metadata.lifebus` is lifebus's own"),
        ({"colour": "blue"}, "`metadata.lifebus` is lifebus's own"),
        ({"telemetry": {"Upper": 1}}, "`metadata.lifebus` is lifebus's own"),
        ({"telemetry": {"pct": 1.5}}, "`metadata.lifebus` is lifebus's own"),
        ({"degradations": [CHANGE | {"capability": ""}]}, "`metadata.lifebus` is lifebus's own"),
        ({"degradations": [CHANGE | {"previous_support": CHANGE["current_support"]}]}, "does not change"),
    ],
)
def test_what_is_no_fact_under_lifebuss_own_key_is_refused(facts: Any, rule: str) -> None:
    refused("dispatch", dispatched(facts), rule)


def test_only_a_dispatched_loss_names_degradations() -> None:
    refused("dispatch", dispatched({"degradations": [CHANGE]}, "frame.opening"), "only a `capability.degraded`")
