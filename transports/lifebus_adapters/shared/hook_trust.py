"""How a harness decides whose hooks it runs: a harness that asks its user first has `TrustRules`."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from lifebus_adapters.shared.assets import InstallRequest

TrustState = Literal["trusted", "untrusted", "modified", "off"]
"""Run; not run until the user agrees; not run because it was changed since; switched off by the user."""


class HookTrust(Struct, frozen=True, kw_only=True):
    """One of our hooks in a harness's settings, and whether the harness will run it."""

    event: str
    key: str
    state: TrustState


class TrustRules(Struct, frozen=True, kw_only=True):
    """Where a harness keeps which hooks it trusts, and how to read it.

    `config_path` returns the TOML file that holds the trust.  `hooks_off` says whether that file, parsed, turns all
    hooks off.  `states` returns how each of our hooks stands; it takes the names of the settings file (as it is called,
    and where links lead), the parsed settings and the parsed TOML file.  `remedy` is what the user has to do.
    """

    config_path: Callable[[InstallRequest], str]
    hooks_off: Callable[[object], bool]
    states: Callable[[Sequence[str], object, object], tuple[HookTrust, ...]]
    remedy: str
