"""The registry finds the adapter a request names, or says why it cannot be had (docs/contract.md 3.6)."""

import pytest
from msgspec import structs

from lifebus_broker.ports import Refusal
from lifebus_broker.routing.registry import Registry
from lifebus_contract import (
    AdapterManifest,
    AdapterUnavailable,
    ConformanceLevel,
    FailureClass,
    IntegrationMode,
    InvalidRequest,
    RegisteredAdapter,
    RetryClass,
    validate,
)
from support.golden import golden

HOOK = IntegrationMode.NATIVE_HOOK


def adapter(adapter_id: str, version: str = "1.2.0") -> RegisteredAdapter:
    manifest = validate(golden("manifest", adapter_id=adapter_id, adapter_version=version), AdapterManifest)
    return RegisteredAdapter(manifest=manifest, conformance=ConformanceLevel.V1)


@pytest.fixture
def registry() -> Registry:
    return Registry([adapter("codex"), adapter("claude")])


def refusal(found: RegisteredAdapter | Refusal) -> Refusal:
    assert isinstance(found, Refusal)
    assert found.failure_class is FailureClass.ADAPTER_UNAVAILABLE
    assert found.retry_class is RetryClass.RETRY_AFTER_RECONFIGURE
    return found


def test_an_adapter_is_found_by_id_version_and_mode(registry: Registry) -> None:
    found = registry.resolve("codex", "1.2.0", HOOK)
    assert isinstance(found, RegisteredAdapter)
    assert found is registry.get("codex")
    assert found.manifest.adapter_id == "codex"


def test_all_adapters_come_in_the_order_of_registration(registry: Registry) -> None:
    assert [found.manifest.adapter_id for found in registry.all()] == ["codex", "claude"]


def test_an_unknown_id_is_answered_with_a_suggestion(registry: Registry) -> None:
    found = refusal(registry.resolve("codx", "1.2.0", HOOK))
    assert (found.code, found.detail) == ("unknown_adapter", "no adapter `codx`; did you mean `codex`?")
    assert registry.get("codx") is None


def test_an_id_like_no_other_is_answered_with_all_that_are_known(registry: Registry) -> None:
    assert refusal(registry.resolve("zzz", "1", HOOK)).detail == "no adapter `zzz`; known are codex, claude"


def test_an_empty_registry_says_so() -> None:
    assert "no adapter is registered" in refusal(Registry([]).resolve("codex", "1", HOOK)).detail


def test_another_version_is_refused_with_both_versions(registry: Registry) -> None:
    found = refusal(registry.resolve("codex", "1.3.0", HOOK))
    assert found.code == "adapter_version_mismatch"
    assert "is version `1.2.0`, not `1.3.0`" in found.detail


def test_a_mode_that_is_not_claimed_is_refused_with_the_claimed_ones(registry: Registry) -> None:
    found = refusal(registry.resolve("codex", "1.2.0", IntegrationMode.TELEMETRY_ONLY))
    assert found.code == "mode_not_claimed"
    assert "`telemetry_only`; it claims `native_hook`, `manual_skill`" in found.detail


def test_a_long_id_is_not_repeated_whole(registry: Registry) -> None:
    assert len(refusal(registry.resolve("x" * 100_000, "1", HOOK)).detail) < 200


def test_an_id_that_is_registered_twice_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="`codex` is registered twice"):
        Registry([adapter("codex"), adapter("claude"), adapter("codex", "2")])


def test_an_adapter_that_is_required_is_there_or_the_error_names_those_that_are(registry: Registry) -> None:
    assert registry.require("codex").manifest.adapter_id == "codex"
    with pytest.raises(AdapterUnavailable, match="no adapter `nobody`; known are codex, claude") as refused:
        registry.require("nobody")
    assert refused.value.code == "unknown_adapter"


def test_other_adapters_take_the_place_of_all_at_once(registry: Registry) -> None:
    newer = adapter("claude", "2.0.0")
    before = registry.replace([newer, adapter("gemini")])
    assert [found.manifest.adapter_id for found in before] == ["codex", "claude"]
    assert [found.manifest.adapter_id for found in registry.all()] == ["claude", "gemini"]
    assert registry.resolve("claude", "2.0.0", HOOK) is newer
    assert refusal(registry.resolve("codex", "1.2.0", HOOK)).code == "unknown_adapter"


def test_a_registry_stays_as_it_was_when_the_new_adapters_contradict_each_other(registry: Registry) -> None:
    with pytest.raises(InvalidRequest):
        registry.replace([adapter("gemini"), adapter("gemini")])
    assert [found.manifest.adapter_id for found in registry.all()] == ["codex", "claude"]


def named(adapter_id: str, *aliases: str) -> RegisteredAdapter:
    return structs.replace(adapter(adapter_id), aliases=frozenset(aliases))


def test_an_alias_finds_its_adapter_and_an_id_itself() -> None:
    registry = Registry([named("claude", "claude-code"), named("codex")])
    assert [registry.id_of(name) for name in ("claude-code", "claude", "nobody")] == ["claude", "claude", "nobody"]
    assert registry.require("claude-code") is registry.get("claude")


@pytest.mark.parametrize(
    "adapters",
    [(named("a", "b"), named("b")), (named("b"), named("a", "b")), (named("a", "c"), named("b", "c"))],
)
def test_a_name_of_two_adapters_is_refused_and_changes_nothing(adapters: tuple[RegisteredAdapter, ...]) -> None:
    registry = Registry([named("claude", "claude-code")])
    with pytest.raises(InvalidRequest) as caught:
        registry.replace(adapters)
    assert caught.value.code == "duplicate_adapter"
    assert registry.require("claude-code").manifest.adapter_id == "claude"
