"""`lifebus manifest`: what each adapter claims."""

from typing import TYPE_CHECKING

from cyclopts import App

from lifebus.cli.arguments import parse_choice
from lifebus.cli.documents import DocumentPath, read_document
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import paint, put, put_json, put_table
from lifebus_contract import AdapterManifest, InvalidRequest, decode_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lifebus_contract import RegisteredAdapter

app = App(name="manifest")
_SUPPORT_COLORS = {
    "native": "green",
    "synthesized": "green",
    "partial": "yellow",
    "manual": "yellow",
    "unavailable": "dim",
}


@app.default
@app.command(name="list")
def list_manifests(*, json: bool = False) -> ExitCode:
    """List the adapters: the built-in ones, and those of the configured manifests.

    Args:
        json: Answer in JSON.
    """
    adapters = _adapters()
    if json:
        put_json([_summary(one) for one in adapters])
    else:
        titles = ("adapter", "version", "level", "name", "modes")
        put_table(titles, [tuple(_summary(one)[title] for title in titles) for one in adapters])
    return ExitCode.OK


@app.command
def show(adapter: str, /, *, json: bool = False) -> ExitCode:
    """Print one adapter's claims.

    Args:
        adapter: Its id.
        json: Print the whole manifest in JSON.
    """
    known = {one.manifest.adapter_id: one for one in _adapters()}
    found = known[parse_choice("adapter", adapter, list(known))]
    if json:
        put_json(found.manifest)
    else:
        _show(found)
    return ExitCode.OK


@app.command
def check(file: DocumentPath = None, /, *, json: bool = False) -> ExitCode:
    """Check a third party's manifest; exit code 1 if it is against the contract.

    Args:
        file: The file, or `-` for stdin.
        json: Answer in JSON.
    """
    data = read_document(file)
    try:
        manifest = _third_party(data)
    except InvalidRequest as fault:
        if json:
            put_json({"valid": False, "field": fault.field, "code": fault.code, "rule": fault.detail})
        else:
            put(f"{paint('invalid', 'red')}: {fault.detail}")
        return ExitCode.NEGATIVE
    claims = sum(claim.support != "unavailable" for claim in manifest.lifecycle_events.values())
    if json:
        put_json({"valid": True, "adapter_id": manifest.adapter_id, "events_claimed": claims})
    else:
        put(f"{paint('valid', 'green')}: {manifest.adapter_id} {manifest.adapter_version} claims {claims} events")
    return ExitCode.OK


def _third_party(data: bytes) -> AdapterManifest:
    manifest = decode_json(data, AdapterManifest)
    if manifest.adapter_id in {one.manifest.adapter_id for one in _adapters(configured=False)}:
        raise InvalidRequest("`adapter_id` is the id of a built-in adapter", field="$.adapter_id", code="taken")
    return manifest


def _adapters(*, configured: bool = True) -> "tuple[RegisteredAdapter, ...]":
    from lifebus_adapters import ADAPTERS  # noqa: PLC0415

    if not configured:
        return tuple(adapter.registered for adapter in ADAPTERS.values())
    from lifebus_supervisor.configuration.adapters import configured_adapters  # noqa: PLC0415
    from lifebus_supervisor.configuration.resolution import load  # noqa: PLC0415

    return configured_adapters(load()[0]).all()


def _summary(adapter: "RegisteredAdapter") -> dict[str, str]:
    manifest = adapter.manifest
    return {
        "adapter": manifest.adapter_id,
        "version": manifest.adapter_version,
        "level": adapter.conformance.value,
        "name": manifest.display_name,
        "modes": ",".join(mode.value for mode in manifest.integration_modes),
    }


def _show(adapter: "RegisteredAdapter") -> None:
    manifest = adapter.manifest
    put(paint(f"{manifest.display_name} ({manifest.adapter_id} {manifest.adapter_version})", "bold"))
    put(f"{adapter.conformance.value}, {manifest.role.value}, {_summary(adapter)['modes']}")
    put("")
    events = [(event.value, claim.support.value, "") for event, claim in manifest.lifecycle_events.items()]
    slots = [
        (slot.value, claim.support.value, f"up to {claim.max_bytes} bytes" if claim.max_bytes else "")
        for slot, claim in manifest.placement.items()
    ]
    others = [("context_pressure", manifest.context_pressure.support.value, manifest.context_pressure.evidence or "")]
    rows = [*events, *slots, *others, *_renewal(adapter)]
    put_table(("claim", "support", "evidence"), rows, color_of=_SUPPORT_COLORS)


def _renewal(adapter: "RegisteredAdapter") -> "Iterator[tuple[str, str, str]]":
    """Yield the five claims of renewal, or that there are none; a claim says which profile it needs."""
    from lifebus_admin.inspection import renewal_claims  # noqa: PLC0415

    claim = adapter.manifest.renewal
    if claim is None:
        yield ("renewal", "not evaluated", "")
        return
    profiles = f"with profile {' or '.join(claim.profiles)}" if claim.profiles else ""
    for name, support, lack in renewal_claims(adapter):
        yield (name, support, lack or profiles)
    yield ("", "", claim.evidence or "")
