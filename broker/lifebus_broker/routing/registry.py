"""The adapters this broker knows, by id (docs/contract.md 3.6).  Pure.

The composition passes the manifests in; the registry imports no adapter.
"""

from collections.abc import Iterable, Mapping

from lifebus_broker.ports import Refusal
from lifebus_contract import (
    AdapterUnavailable,
    IntegrationMode,
    InvalidRequest,
    RegisteredAdapter,
    Warning,  # noqa: A004  the contract's own word
)

_SHOWN = 64
"""How many characters of a caller's identifier a refusal repeats."""


class Registry:
    """Finds the adapter that a request names, or returns why there is none.

    Raises:
        InvalidRequest: two of the adapters have the same id.
    """

    def __init__(self, adapters: Iterable[RegisteredAdapter]) -> None:
        self._adapters = _by_id(adapters)
        self._aliases = _by_alias(self._adapters)

    def replace(self, adapters: Iterable[RegisteredAdapter]) -> tuple[RegisteredAdapter, ...]:
        """Replace all adapters at once, and return those known before.

        Dispatches under way keep the adapter that they were resolved to.

        Raises:
            InvalidRequest: two of the adapters have the same id; the registry stays as it was.
        """
        before = self.all()
        known = _by_id(adapters)  # built whole, then swapped: no reader sees half of it
        aliases = _by_alias(known)
        self._adapters, self._aliases = known, aliases
        return before

    def id_of(self, name: str) -> str:
        """Return the adapter's id where the name is an alias, else the name as it is."""
        return self._aliases.get(name, name)

    def get(self, adapter_id: str) -> RegisteredAdapter | None:
        """Return the adapter of that id or alias, or None."""
        # By its id first: most callers name it so, and every emission comes here.
        return self._adapters.get(adapter_id) or self._adapters.get(self.id_of(adapter_id))

    def all(self) -> tuple[RegisteredAdapter, ...]:
        """Return every adapter, in the order of registration."""
        return tuple(self._adapters.values())

    def require(self, adapter_id: str) -> RegisteredAdapter:
        """Return the adapter with this id or alias.

        Raises:
            AdapterUnavailable: there is none; the text names those that are known.
        """
        adapter = self.get(adapter_id)
        if adapter is None:
            detail = f"no adapter `{adapter_id[:_SHOWN]}`; known are {', '.join(self._adapters)}"
            raise AdapterUnavailable(detail, code="unknown_adapter")
        return adapter

    def resolve(self, adapter_id: str, adapter_version: str, mode: IntegrationMode) -> RegisteredAdapter | Refusal:
        """Return the adapter a request names, or an `adapter_unavailable` refusal with the reason.

        See docs/contract.md 3.6.
        """
        adapter = self._adapters.get(adapter_id)
        if adapter is None:
            return Refusal.of("unknown_adapter", f"no adapter `{adapter_id[:_SHOWN]}`; {self._suggestion(adapter_id)}")
        manifest = adapter.manifest
        # Exactly equal: an emission was made by the rules of one version and means nothing in another.
        if manifest.adapter_version != adapter_version:
            return Refusal.of(
                "adapter_version_mismatch",
                f"adapter `{adapter_id[:_SHOWN]}` is version `{manifest.adapter_version[:_SHOWN]}`,"
                f" not `{adapter_version[:_SHOWN]}`",
            )
        if mode not in manifest.integration_modes:
            claimed = ", ".join(f"`{known}`" for known in manifest.integration_modes)
            return Refusal.of(
                "mode_not_claimed", f"adapter `{adapter_id[:_SHOWN]}` does not claim mode `{mode}`; it claims {claimed}"
            )
        return adapter

    def _suggestion(self, adapter_id: str) -> str:
        """Return a hint for an unknown id: the closest one, or all that are known."""
        # Bounded: the comparison takes time that grows with the square of the length, and the id is a caller's.
        import difflib  # noqa: PLC0415  only where a name is wrong

        near = difflib.get_close_matches(adapter_id[:_SHOWN], self._adapters, n=1)
        if near:
            return f"did you mean `{near[0]}`?"
        return f"known are {', '.join(self._adapters)}" if self._adapters else "no adapter is registered"


def alias_warning(name: str, adapter_id: str) -> Warning:
    """Return the remark that an adapter was named by an alias."""
    return Warning(code="adapter_alias", message=f"`{name[:_SHOWN]}` is the adapter `{adapter_id[:_SHOWN]}`")


def _by_id(adapters: Iterable[RegisteredAdapter]) -> dict[str, RegisteredAdapter]:
    """Return the adapters by id.

    Raises:
        InvalidRequest: two of them have the same id.
    """
    found: dict[str, RegisteredAdapter] = {}
    for adapter in adapters:
        adapter_id = adapter.manifest.adapter_id
        if adapter_id in found:
            raise InvalidRequest(
                f"adapter_id: `{adapter_id[:_SHOWN]}` is registered twice",
                code="duplicate_adapter",
                field="$.adapter_id",
            )
        found[adapter_id] = adapter
    return found


def _by_alias(adapters: Mapping[str, RegisteredAdapter]) -> dict[str, str]:
    """Return the adapter id of each alias.

    Raises:
        InvalidRequest: an alias is also the id or an alias of another adapter: it would name two.
    """
    found: dict[str, str] = {}
    for adapter_id, adapter in adapters.items():
        for alias in adapter.aliases:
            if alias in adapters or alias in found:
                raise InvalidRequest(
                    f"adapter_id: `{alias[:_SHOWN]}` is taken, it is another name of `{adapter_id[:_SHOWN]}`",
                    code="duplicate_adapter",
                    field="$.adapter_id",
                )
            found[alias] = adapter_id
    return found
