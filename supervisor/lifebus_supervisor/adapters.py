"""The adapters a broker knows: the built-in ones and those of the configured manifests.

Above: daemon, inspection.  Below: lifebus_adapters, the registry.
"""

from pathlib import Path

from lifebus_adapters import ADAPTERS, load_third_party
from lifebus_broker.registry import Registry
from lifebus_contract import InvalidRequest, LifebusError, RegisteredAdapter
from lifebus_supervisor.settings import Settings

__all__ = ["configured_adapters"]


def configured_adapters(settings: Settings) -> Registry:
    """Return the built-in adapters and those of the configured manifests.

    Raises:
        InvalidRequest: a manifest cannot be read, is against the contract, or takes an id that is taken.
    """
    return Registry([*(adapter.registered for adapter in ADAPTERS.values()), *map(_third_party, settings.manifests)])


def _third_party(path: Path) -> RegisteredAdapter:
    try:
        return load_third_party(path.read_bytes())
    except OSError as fault:
        raise InvalidRequest(f"manifest {path}: {fault.strerror}", code="manifest_unreadable") from fault
    except LifebusError as fault:
        raise InvalidRequest(f"manifest {path}: {fault.detail}", code="manifest_invalid") from fault
