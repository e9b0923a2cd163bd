"""Which hooks Codex trusts: those whose hash stands in its config.toml.  It passes over the others without a word.

A hook's key is ``<path of the file>:<event in snake case>:<group>:<handler>``, its hash the sha256 of its definition as
canonical JSON; both as 0.169.0 answers to `hooks/list`.  What the command runs is no part of the hash, its text is.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, cast

import msgspec
from msgspec import structs

from lifebus_adapters.codex.assets import home_of
from lifebus_adapters.shared.assets import InstallRequest, is_hook_command
from lifebus_adapters.shared.hook_trust import HookTrust, TrustRules, TrustState

_DEFAULT_TIMEOUT_S: Final = 600
_MAX_TIMEOUT_S: Final = {"Interrupt": 3, "SessionEnd": 3}
_UNMATCHED: Final = frozenset({"Stop", "UserPromptSubmit"})
"""Events whose matcher Codex passes over."""

_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")


def hook_hash(event: str, matcher: str | None, handler: Mapping[str, Any]) -> str:
    """Return the hash of a command hook, as Codex writes it."""
    timeout = handler.get("timeout", _DEFAULT_TIMEOUT_S)
    definition: dict[str, Any] = {
        "type": "command",
        "command": handler.get("command"),
        # Codex cuts a timeout before it hashes the hook.
        "timeout": min(timeout, _MAX_TIMEOUT_S.get(event, timeout)),
        "async": handler.get("async", False),
    }
    if handler.get("statusMessage") is not None:
        definition["statusMessage"] = handler["statusMessage"]
    identity = {"event_name": _snake(event), "hooks": [definition]}
    # Codex drops the matcher of these events before it hashes the hook.
    if matcher is not None and event not in _UNMATCHED:
        identity["matcher"] = matcher
    return "sha256:" + sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()


def hook_trust(paths: Sequence[str], hooks: object, config: object) -> tuple[HookTrust, ...]:
    """Return how each of our hooks stands.

    Args:
        paths: The names of the hooks.json: as it is called, and where links lead.
        hooks: The parsed hooks.json.
        config: The parsed config.toml.
    """
    states = _at(config, "hooks", "state")
    return tuple(
        HookTrust(event=event, key=f"{paths[0]}:{place}", state=_state(states, paths, place, digest))
        for event, place, digest in _our_hooks(hooks)
    )


def _our_hooks(hooks: object) -> Iterator[tuple[str, str, str]]:
    """Yield event, place and hash of each of our hooks."""
    for event, groups in _at(hooks, "hooks").items():
        for group, members in enumerate(_list(groups)):
            for index, handler in enumerate(_list(_at(members).get("hooks"))):
                definition = _at(handler)
                if is_hook_command(definition.get("command")):
                    matcher = _at(members).get("matcher")
                    yield event, f"{_snake(event)}:{group}:{index}", hook_hash(event, matcher, definition)


def _state(states: Mapping[str, Any], paths: Sequence[str], place: str, digest: str) -> TrustState:
    entry = _at(next((found for path in paths if (found := states.get(f"{path}:{place}"))), None))
    # Before the hash: a hook that is switched off stays off, however trusted.
    if entry.get("enabled") is False:
        return "off"
    trusted = entry.get("trusted_hash")
    if trusted is None:
        return "untrusted"
    return "trusted" if trusted == digest else "modified"


def _snake(event: str) -> str:
    return _WORD.sub("_", event).lower()


def _at(value: object, *keys: str) -> Mapping[str, Any]:
    """Return the object at the keys, an empty one where there is none."""
    for key in keys:
        value = cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else None
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()


def _config_path(request: InstallRequest) -> str:
    """Return the user's config.toml: a project's own cannot trust its hooks."""
    return f"{home_of(structs.replace(request, project=None))}/config.toml"


def _hooks_off(config: object) -> bool:
    return _at(config, "features").get("hooks") is False


TRUST: Final = TrustRules(
    config_path=_config_path,
    hooks_off=_hooks_off,
    states=hook_trust,
    remedy="start codex and accept them when it asks, or review them with /hooks",
)
"""How Codex trusts hooks."""
