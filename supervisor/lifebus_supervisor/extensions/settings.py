"""The `[extensions]` of the configuration.  Pure."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from lifebus_contract.capability import TrustMode

AUTO: Final = "auto"
"""The root that stands for `agents` beside the configuration file."""

_Path = Annotated[str, Meta(min_length=1, max_length=4_096)]
_Paths = Annotated[tuple[_Path, ...], Meta(max_length=64)]


class ExtensionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which extensions are loaded, and how they are run (docs/extensions.md)."""

    roots: _Paths = (AUTO,)
    """Folders of extensions of your own; ``auto`` is `agents` beside the configuration file."""
    package_roots: _Paths = ()
    """Folders of extensions that packages have installed; weaker than `roots`."""
    configured_roots: _Paths = ()
    """Further folders, the weakest."""
    trust_mode: TrustMode = TrustMode.WARN
    """What is done about capabilities that are not declared."""
    memory_mb: Annotated[int, Meta(ge=256, le=1_048_576)] = 1_024
    """MiB of address space for the process that runs all extensions."""
    handler_timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] = 30_000
    """How long a handler may take that does not say so itself."""
    environment: Annotated[tuple[str, ...], Meta(max_length=256)] = ()
    """Further variables that extensions get; a star stands for any ending."""
