"""The adapters a broker knows: the built-in ones and those of the configured manifests."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import structs

from lifebus_adapters import ADAPTERS, load_third_party
from lifebus_broker.claims import claims_without
from lifebus_broker.routing.registry import Registry
from lifebus_contract import AdapterManifest, InvalidRequest, LifebusError, RegisteredAdapter
from lifebus_supervisor.configuration.file import ConfigurationError
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.renewal.profile import RenewalSettings
from lifebus_supervisor.runtime.bus.manifest import FLOW


def configured_adapters(settings: Settings) -> Registry:
    """Return the built-in adapters and those of the configured manifests, each with its enabled profiles.

    Raises:
        InvalidRequest: a manifest cannot be read, is against the contract, or takes an id that is taken.
        ConfigurationError: a profile is enabled that no adapter claims.
    """
    known = [*(adapter.registered for adapter in ADAPTERS.values()), FLOW, *map(_third_party, settings.manifests)]
    _check_profiles(settings.renewals, {one.manifest.adapter_id: one.manifest for one in known})
    lacking = claims_without(settings.ledger_location.capabilities)
    return Registry(
        [structs.replace(one, profiles=_profiles_of(one, settings), unavailable_here=lacking) for one in known]
    )


def _profiles_of(registered: RegisteredAdapter, settings: Settings) -> frozenset[str]:
    adapter_id = registered.manifest.adapter_id
    return frozenset(one.profile for one in settings.renewals if one.adapter == adapter_id)


def _check_profiles(renewals: Sequence[RenewalSettings], known: Mapping[str, AdapterManifest]) -> None:
    """Refuse profiles that can never be of use.

    Raises:
        ConfigurationError: says which, and what there is.
    """
    problems: list[str] = []
    for one in renewals:
        manifest = known.get(one.adapter)
        if manifest is None:
            problems.append(f"renewals: no adapter `{one.adapter[:64]}`; known are {', '.join(known)}")
        # None is not an empty list: whether this harness can be renewed was never evaluated.
        elif manifest.renewal is None:
            problems.append(f"renewals: the adapter `{one.adapter[:64]}` has not evaluated renewal")
        elif manifest.renewal.profiles and one.profile not in manifest.renewal.profiles:
            claimed = ", ".join(manifest.renewal.profiles)
            problems.append(
                f"renewals: `{one.adapter[:64]}` claims no profile `{one.profile[:64]}`; it claims {claimed}"
            )
    if problems:
        raise ConfigurationError(problems)


def _third_party(path: Path) -> RegisteredAdapter:
    try:
        return load_third_party(path.read_bytes())
    except OSError as fault:
        raise InvalidRequest(f"manifest {path}: {fault.strerror}", code="manifest_unreadable") from fault
    except LifebusError as fault:
        raise InvalidRequest(f"manifest {path}: {fault.detail}", code="manifest_invalid") from fault
