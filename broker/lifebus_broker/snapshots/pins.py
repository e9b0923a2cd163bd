"""Pins: what a rebuild depends on beside the log, and whether it is today what it was (docs/ledger.md G6).

A pin that is absent, one that is null and one that is empty are three different things, and none of them equals
another.  Without pins nothing passes.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeGuard

import msgspec
from msgspec import Struct

from lifebus_broker.canonical_json import CANONICAL_PROFILE, HASH_ALGORITHM, canonical, sha256_hex
from lifebus_broker.snapshots.frozen import Frozen, FrozenMap, freeze_map, thaw
from lifebus_contract import CONTRACT_VERSION, AdapterManifest

PINS: Final = (
    "canonical_profile",
    "compaction_policies",
    "contract_version",
    "hash_algorithm",
    "manifests",
    "reducer_version",
)
"""The names of the pins, all of which every set of pins has."""


class Absent(Struct, frozen=True):
    """That a pin is not there at all."""


ABSENT: Final = Absent()
"""The value of a pin that is not there; null and empty are values of one that is."""


class PinChange(Struct, frozen=True):
    """One pin that is not what it was; one manifest is named ``manifests.<adapter id>``."""

    pin: str
    before: "Frozen | Absent"
    after: "Frozen | Absent"

    def __str__(self) -> str:
        return f"`{self.pin}` was {_shown(self.before)} and is {_shown(self.after)}"


def pins_of(
    manifests: Iterable[AdapterManifest], *, reducer_version: int, compaction_policies: Iterable[str]
) -> FrozenMap:
    """Return the pins of an environment: these manifests, this reducer, these ways to compact, and what this code is.

    A letter of an adapter id that is not ASCII is escaped, because keys of canonical JSON are ASCII here.
    """
    # Digests and not the manifests: a snapshot stays small, and any change shows.
    digests = {_key_of(manifest): sha256_hex(canonical(msgspec.to_builtins(manifest))) for manifest in manifests}
    return freeze_map(
        {
            "canonical_profile": CANONICAL_PROFILE,
            "compaction_policies": sorted(compaction_policies),
            "contract_version": CONTRACT_VERSION,
            "hash_algorithm": HASH_ALGORITHM,
            "manifests": dict(sorted(digests.items())),
            "reducer_version": reducer_version,
        }
    )


def what_is_missing(pins: Mapping[str, Frozen] | None) -> str | None:
    """Return why these are no pins to stand on, None where every pin is there."""
    if pins is None:
        return "there are no pins (null)"
    if not pins:
        return "there are no pins (an empty map)"
    missing = [f"`{name}`" for name in PINS if name not in pins]
    return f"pins are absent: {', '.join(missing)}" if missing else None


def changes_between(before: Mapping[str, Frozen], after: Mapping[str, Frozen]) -> tuple[PinChange, ...]:
    """Return every pin that differs, by name; of two maps of manifests each manifest that does."""
    return tuple(_changes("", before, after))


def _changes(prefix: str, before: Mapping[str, Frozen], after: Mapping[str, Frozen]) -> Iterable[PinChange]:
    for name in sorted({*before, *after}):
        old, new = before.get(name, ABSENT), after.get(name, ABSENT)
        # Maps of manifests are compared one by one, so that the message names the adapter.
        if _is_map(old) and _is_map(new) and old and new:
            yield from _changes(f"{prefix}{name}.", old, new)
        elif _bytes_of(old) != _bytes_of(new):
            yield PinChange(f"{prefix}{name}", old, new)


def _bytes_of(value: "Frozen | Absent") -> bytes:
    """Return what two equal values have in common; `true` is not 1."""
    # No canonical form is empty, so that absent equals nothing else.
    return b"" if isinstance(value, Absent) else canonical(thaw(value))


def _shown(value: "Frozen | Absent") -> str:
    if isinstance(value, Absent):
        return "absent"
    if value is None:
        return "null"
    if value in ("", ()) or (_is_map(value) and not value):
        return "empty"
    text = value if isinstance(value, str) else canonical(thaw(value)).decode()
    return f"`{text[:128]}`"


def _key_of(manifest: AdapterManifest) -> str:
    return manifest.adapter_id.encode("unicode_escape").decode("ascii")


def _is_map(value: "Frozen | Absent") -> TypeGuard[Mapping[str, Frozen]]:
    return isinstance(value, Mapping)
