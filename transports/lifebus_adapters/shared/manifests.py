"""Manifests from JSON: the built-in ones, shipped with examples beside each harness's code, and third parties'."""

from importlib import resources

from lifebus_contract import (
    AdapterManifest,
    ConformanceLevel,
    IntegrationMode,
    PlacementClass,
    RegisteredAdapter,
    decode_json,
)


def load_manifest(data: bytes) -> AdapterManifest:
    """Return the manifest that the JSON `data` holds (docs/contract.md 3.1).

    Raises:
        InvalidRequest: not strict JSON, an unknown key, or against the contract.
    """
    return decode_json(data, AdapterManifest)


def load_third_party(data: bytes) -> RegisteredAdapter:
    """Return a third party's manifest ready to be registered.

    Nothing here has tested its claims, so it is pre-conformance, whatever it says.

    Raises:
        InvalidRequest: as `load_manifest`.
    """
    return RegisteredAdapter(manifest=load_manifest(data), conformance=ConformanceLevel.PRE_CONFORMANCE)


def builtin(
    adapter_id: str,
    conformance: ConformanceLevel,
    *,
    refused: frozenset[PlacementClass] = frozenset(),
    watching: frozenset[IntegrationMode] = frozenset(),
) -> RegisteredAdapter:
    """Return the manifest in the folder of a built-in adapter; read once, at import."""
    data = resources.files("lifebus_adapters").joinpath(adapter_id, "manifest.json").read_bytes()
    return RegisteredAdapter(
        manifest=load_manifest(data), conformance=conformance, refused_placements=refused, watching_modes=watching
    )


def builtin_examples(adapter_id: str) -> bytes:
    """Return the example calls in the folder of a built-in adapter, one JSON object a line."""
    return resources.files("lifebus_adapters").joinpath(adapter_id, "examples.jsonl").read_bytes()
