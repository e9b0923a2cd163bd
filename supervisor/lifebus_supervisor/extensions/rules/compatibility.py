"""Whether an extension fits this runtime: every demand is checked, and each one that is not met is said.  Pure."""

from collections.abc import Iterator
from typing import Final

from lifebus_contract.extensions import Compatibility
from lifebus_supervisor.extensions.rules.manifest import Manifest
from lifebus_supervisor.extensions.rules.npm_ranges import is_within, read_version

API_VERSION: Final = 1
"""The version of what extensions are offered."""

PROFILE: Final = "lifebus"
PROFILE_VERSION: Final = "1.0.0"


def check_compatibility(manifest: Manifest) -> Compatibility:
    """Return what a manifest asks of the runtime, and whether it is given."""
    reasons = (*_api_reasons(manifest), *_profile_reasons(manifest))
    return Compatibility(
        api_version=manifest.api_version,
        api_version_range=None if manifest.api_range is None else manifest.api_range.text,
        runtime_version=API_VERSION,
        profile_id=PROFILE,
        profile_version=PROFILE_VERSION,
        compatible=not reasons,
        reasons=reasons,
    )


def _api_reasons(manifest: Manifest) -> Iterator[str]:
    asked, within = manifest.api_version, manifest.api_range
    if asked is not None and asked != API_VERSION:
        yield f"it is made for version {asked} of the extension API; this is version {API_VERSION}"
    ours = read_version(f"{API_VERSION}.0.0")
    if within is not None and not is_within(ours, within.alternatives):
        yield f"it is made for versions `{within.text}` of the extension API; this is {ours}"


def _profile_reasons(manifest: Manifest) -> Iterator[str]:
    if not manifest.profiles:
        return
    ours = [one for one in manifest.profiles if one.name == PROFILE]
    if not ours:
        names = ", ".join(one.name for one in manifest.profiles)
        yield f"it is made for the profiles {names}; this is {PROFILE}"
    for one in ours:
        if one.demand is not None and not is_within(read_version(PROFILE_VERSION), one.demand.alternatives):
            yield f"it is made for `{one.demand.text}` of the profile {PROFILE}; this is {PROFILE_VERSION}"
