"""Which installed hooks their harness does not run, because its user has not agreed to them or has turned them off."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from lifebus_adapters.harness import Harness
from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_contract import IntegrationMode

if TYPE_CHECKING:
    from lifebus_adapters.shared.hook_trust import TrustRules, TrustState

_REASONS: Final[dict["TrustState", str]] = {
    "untrusted": "the hooks are installed and not trusted",
    "modified": "the hooks are installed, and were changed since they were trusted",
    "off": "the hooks are installed and switched off",
}
_ALL_OFF: Final = "the hooks are installed, and all hooks are turned off"

_Version = tuple[int | None, ...]


class _Place(Struct, frozen=True):
    """Where a harness keeps hooks and trust, and how to read both."""

    settings: str
    config: str
    rules: "TrustRules"


class DistrustedHooks:
    """Says why the user's hooks of an adapter do not run; the harness's files are read again when they change.

    Harnesses without rules of trust run every hook that is installed.
    """

    def __init__(self, harnesses: Mapping[str, Harness], surroundings: Surroundings) -> None:
        self._harnesses, self._surroundings = harnesses, surroundings
        self._places: dict[str, _Place | None] = {}
        self._known: dict[str, tuple[_Version, str | None]] = {}

    def __call__(self, adapter_id: str) -> str | None:
        """Return in a few words why no hook of ours runs; None where one does, or where that cannot be read."""
        if adapter_id not in self._places:
            harness = self._harnesses.get(adapter_id)
            self._places[adapter_id] = None if harness is None else _place_of(harness, self._surroundings)
        place = self._places[adapter_id]
        if place is None:
            return None
        version = (*_version_of(place.settings), *_version_of(place.config))
        known = self._known.get(adapter_id)
        if known is None or known[0] != version:
            known = self._known[adapter_id] = (version, _reason(place))
        return known[1]


def _place_of(harness: Harness, surroundings: Surroundings) -> _Place | None:
    if harness.trust is None:
        return None
    from lifebus_adapters.shared.assets import InstallRequest, SettingsFile  # noqa: PLC0415  only with a session

    # The launcher's path is in the hooks' texts alone, and those are read from the settings.
    request = InstallRequest(mode=IntegrationMode.NATIVE_HOOK, scope="user", surroundings=surroundings, launcher="")
    settings = next(asset for asset in harness.assets.make(request) if isinstance(asset, SettingsFile))
    return _Place(settings.path, harness.trust.config_path(request), harness.trust)


def _reason(place: _Place) -> str | None:
    try:
        hooks = msgspec.json.decode(Path(place.settings).read_bytes())
        config = _config(Path(place.config))
    except (OSError, ValueError):  # every parser's error is a ValueError
        return None
    if place.rules.hooks_off(config):
        return _ALL_OFF
    # The harness may know the file by its own name or by the one that links lead to.
    paths = tuple(dict.fromkeys((place.settings, os.path.realpath(place.settings))))
    states: list[TrustState] = [hook.state for hook in place.rules.states(paths, hooks, config)]
    return None if not states or "trusted" in states else _REASONS[states[0]]


def _config(path: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415  only where a harness has hooks of ours

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}


def _version_of(path: str) -> _Version:
    try:
        status = Path(path).stat()
    except OSError:
        return (None,)
    return status.st_ino, status.st_size, status.st_mtime_ns
