"""Manifests from JSON, and the files that ship beside a harness's code."""

import pkgutil

from lifebus_contract import (
    AdapterManifest,
    ConformanceLevel,
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


def package_file(package: str, name: str) -> bytes:
    """Return a file that ships in a package, such as a harness's manifest or its example calls.

    Raises:
        OSError: the package has no such file.
    """
    # Through the package's loader, because it may be inside a zip file; `importlib.resources` loads 15 modules for it.
    found = pkgutil.get_data(package, name)
    if found is None:
        raise FileNotFoundError(f"{package} comes from where no files can be read")
    return found
