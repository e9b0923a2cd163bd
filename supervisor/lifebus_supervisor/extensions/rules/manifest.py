"""The manifest of an extension: `extension.toml`, or the specification's `extension.manifest.json`.  Pure."""

import tomllib
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from lifebus_contract.extensions import ExtensionCapabilities
from lifebus_supervisor.extensions.rules.npm_ranges import (
    Range,
    UnreadableRange,
    read_npm_range,
    read_pep440_range,
    read_version,
)
from lifebus_supervisor.extensions.rules.plain_json import as_list, as_object

TOML_NAME: Final = "extension.toml"
JSON_NAME: Final = "extension.manifest.json"
ENTRYPOINT: Final = "events.py"

_Text = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]{1,256}$(?!\n)")]
_Names = Annotated[tuple[_Text, ...], Meta(max_length=256)]


class UnreadableManifest(ValueError):
    """A manifest does not say what it has to; the text names the place."""


class Demand(Struct, frozen=True):
    """A range or a version that is asked for: as it was written, and read."""

    text: str
    alternatives: Range


class ProfileDemand(Struct, frozen=True):
    """A runtime profile that an extension is made for."""

    name: str
    demand: Demand | None


class Manifest(Struct, frozen=True, kw_only=True):
    """What an extension says of itself.  `capabilities` is None where it declares none at all."""

    name: str
    version: str
    agent_id: str
    display_name: str
    api_version: int | None = None
    api_range: Demand | None = None
    profiles: tuple[ProfileDemand, ...] = ()
    entrypoint: str | None = None
    capabilities: ExtensionCapabilities | None = None


class _TomlRuntime(Struct, frozen=True, forbid_unknown_fields=True):
    api: str | None = None
    profiles: dict[_Text, str] = {}


class _Capabilities(Struct, frozen=True, forbid_unknown_fields=True):
    events: _Names = ()
    actions: _Names = ()


class _Toml(Struct, frozen=True, forbid_unknown_fields=True):
    name: _Text
    version: _Text = "0.0.0"
    agent_id: _Text | None = None
    display_name: _Text | None = None
    entrypoint: _Text | None = None
    runtime: _TomlRuntime = _TomlRuntime()
    capabilities: _Capabilities | None = None


def without_manifest(module_name: str) -> Manifest:
    """Return what stands for a manifest where there is none: the folder's name is every name."""
    return Manifest(name=module_name, version="0.0.0", agent_id=module_name, display_name=module_name)


def read_toml(data: bytes) -> Manifest:
    """Return what `extension.toml` says.

    Raises:
        UnreadableManifest: not TOML, an unknown key, a wrong type, an unreadable range.
    """
    try:
        plain = tomllib.loads(data.decode())
        given = msgspec.convert(plain, _Toml)
        runtime = given.runtime
        api = None if runtime.api is None else Demand(runtime.api, read_pep440_range(runtime.api))
        profiles = tuple(
            ProfileDemand(name, Demand(text, read_pep440_range(text)) if text else None)
            for name, text in runtime.profiles.items()
        )
    except (ValueError, RecursionError) as fault:
        raise UnreadableManifest(f"{TOML_NAME}: {fault}") from None
    declared = given.capabilities
    return Manifest(
        name=given.name,
        version=given.version,
        agent_id=given.agent_id or given.name,
        display_name=given.display_name or given.name,
        api_range=api,
        profiles=profiles,
        entrypoint=given.entrypoint,
        capabilities=None
        if declared is None
        else ExtensionCapabilities(events=declared.events, actions=declared.actions),
    )


def read_json(data: bytes) -> Manifest:
    """Return what `extension.manifest.json` says; keys that the specification does not have are passed over.

    Raises:
        UnreadableManifest: not JSON, a name is missing or blank, an unreadable range.
    """
    try:
        plain = msgspec.json.decode(data, type=dict[str, Any])
        names = {key: _required(plain, key) for key in ("name", "version", "agentId", "displayName")}
        runtime = as_object(plain.get("runtime"))
        version = runtime.get("coreApiVersion")
        text = runtime.get("coreApiVersionRange")
        return Manifest(
            name=names["name"],
            version=names["version"],
            agent_id=names["agentId"],
            display_name=names["displayName"],
            api_version=int(version) if isinstance(version, int | float) and not isinstance(version, bool) else None,
            api_range=Demand(text, read_npm_range(text)) if isinstance(text, str) else None,
            profiles=_profiles(runtime.get("profiles")),
            entrypoint=_optional(as_object(plain.get("entrypoints")), "events"),
            capabilities=_capabilities(plain.get("capabilities")),
        )
    except UnreadableManifest:
        raise
    except (ValueError, OverflowError, RecursionError) as fault:
        raise UnreadableManifest(f"{JSON_NAME}: {fault}") from None


def _required(plain: dict[str, Any], key: str) -> str:
    value = _optional(plain, key)
    if value is None:
        raise UnreadableManifest(f"{JSON_NAME}: `{key}` is required, a text that is not blank")
    return value


def _optional(plain: dict[str, Any], key: str) -> str | None:
    value = plain.get(key)
    if not isinstance(value, str) or not value.strip():
        return None
    try:
        return msgspec.convert(value.strip(), _Text)
    except msgspec.ValidationError:
        raise UnreadableManifest(f"{JSON_NAME}: `{key}` is too long, or holds control characters") from None


def _profiles(given: Any) -> tuple[ProfileDemand, ...]:
    found = ((_optional(one, "name"), one) for one in map(as_object, as_list(given)))
    return tuple(ProfileDemand(name, _profile_demand(one)) for name, one in found if name is not None)


def _profile_demand(one: dict[str, Any]) -> Demand | None:
    text = one.get("versionRange")
    if isinstance(text, str):
        return Demand(text, read_npm_range(text))
    exact = one.get("version")
    if not isinstance(exact, str):
        return None
    try:
        return Demand(exact, read_npm_range(f"={'.'.join(_three(exact))}"))
    except UnreadableRange as fault:
        raise UnreadableManifest(f"{JSON_NAME}: {fault}") from None


def _three(text: str) -> list[str]:
    """Return a version's three numbers: in the specification's manifest ``1`` is ``1.0.0``."""
    release = read_version(text).release
    return [str(number) for number in (*release, 0, 0)[:3]]


def _capabilities(given: Any) -> ExtensionCapabilities | None:
    if not isinstance(given, dict):
        return None
    block = as_object(given)
    return ExtensionCapabilities(events=_names(block.get("events")), actions=_names(block.get("actions")))


def _names(given: Any) -> tuple[str, ...]:
    """Return the texts of a list; what is none, and what is blank, is passed over as the specification says."""
    return tuple(one.strip() for one in as_list(given) if isinstance(one, str) and one.strip())[:256]
