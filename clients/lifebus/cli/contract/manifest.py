"""`lifebus contract manifest` and `conform`: what each adapter claims, and whether an adapter keeps to the contract."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from lifebus.cli.arguments import parse_adapter, parse_choice, parse_seconds
from lifebus.cli.choices import AdapterName, OneAdapter, Words, split_values
from lifebus.cli.connection import present_settings
from lifebus.cli.contract.live import conform_live
from lifebus.cli.contract.runtime import conform_runtime
from lifebus.cli.documents import DocumentPath, read_document
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import clean, paint, put, put_json, put_table
from lifebus_contract import AdapterManifest, InvalidRequest, decode_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lifebus_adapters.conformance import CheckFinding
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
def show(adapter: AdapterName, /, *, json: bool = False) -> ExitCode:
    """Print one adapter's claims.

    Args:
        adapter: Its id.
        json: Print the whole manifest in JSON.
    """
    known = {one.manifest.adapter_id: one for one in _adapters()}
    found = known[parse_choice("ADAPTER", parse_adapter(adapter), list(known))]
    if json:
        put_json(found.manifest)
    else:
        _show(found)
    return ExitCode.OK


@app.command
def placements(adapter: OneAdapter = None, /, *, json: bool = False) -> ExitCode:
    """Show where payloads land: each placement that a payload may ask for, on each event.

    Args:
        adapter: Only this adapter.
        json: Answer in JSON, a row for each adapter, event and placement.
    """
    from lifebus_admin.placements import plain_placements, shown_placements  # noqa: PLC0415

    known = {one.manifest.adapter_id: one for one in _adapters()}
    wanted = list(known) if adapter is None else [parse_choice("ADAPTER", parse_adapter(adapter), list(known))]
    if json:
        put_json([{"adapter": name, **row} for name in wanted for row in plain_placements(known[name])])
    else:
        rows = [(name, *row) for name in wanted for row in shown_placements(known[name])]
        put_table(("adapter", "payload placement", "on", "a payload is"), rows)
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
    from lifebus_transports.adapter_names import adapter_id_of  # noqa: PLC0415

    manifest = decode_json(data, AdapterManifest)
    # Only the built-in ids: a configured manifest is checked again with its own file.
    if adapter_id_of(manifest.adapter_id) in {one.manifest.adapter_id for one in _adapters(configured=False)}:
        raise InvalidRequest(
            "`adapter_id` is the id or an alias of a built-in adapter", field="$.adapter_id", code="taken"
        )
    return manifest


def _adapters(*, configured: bool = True) -> "tuple[RegisteredAdapter, ...]":
    from lifebus_adapters import ADAPTERS  # noqa: PLC0415

    if not configured:
        return tuple(adapter.registered for adapter in ADAPTERS.values())
    from lifebus_supervisor.configuration.adapters import configured_adapters  # noqa: PLC0415

    return configured_adapters(present_settings()).all()


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
    from lifebus_admin.placements import shown_placements  # noqa: PLC0415

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
    put("")
    put_table(("payload placement", "on", "a payload is"), list(shown_placements(adapter)))


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


conform_app = App(name="conform")
conform_app.command(conform_runtime, name="runtime")


@conform_app.default
def conform(
    *adapter: Annotated[str, Parameter(allow_leading_hyphen=True)],
    json: bool = False,
    timeout: str = "5s",
    live: bool = False,
    scenario: Words = (),
    program: Path | None = None,
    keep: Path | None = None,
) -> ExitCode:
    """Check an adapter against everything that an adapter has to fulfil; exit code 1 if it fails anywhere.

    With --live the harness itself is checked, as it is installed here: it plays every scenario in a home of its own,
    against a model on loopback, and what was recorded is compared with what has to be. It takes some minutes.

    Args:
        adapter: The id of a built-in adapter; or the command of an adapter program and its arguments, after `--` where
            they begin with a hyphen. The program is asked on its stdin and answers on its stdout
            (docs/adapter-protocol.md).
        json: Answer in JSON.
        timeout: How long the program may take for each answer; the default is 5s.
        live: Play the scenarios with the harness that has this id.
        scenario: With --live, play only these.
        program: With --live, the harness's program; the default is what PATH has by the harness's id.
        keep: With --live, a directory that gets a copy of what every run wrote.
    """
    if scenario and not live:
        raise UsageError("--scenario: it needs --live")
    if live:
        return conform_live([parse_adapter(name) for name in adapter], split_values(scenario), program, keep, json=json)
    findings = _examine(adapter, parse_seconds(timeout))
    if json:
        put_json(findings)
    else:
        for finding in findings:
            _show_finding(finding)
        failed = sum(not finding.ok for finding in findings)
        put(f"{len(findings) - failed} of {len(findings)} checks passed")
    return ExitCode.OK if all(finding.ok for finding in findings) else ExitCode.NEGATIVE


def _examine(command: "Sequence[str]", seconds: float) -> "list[CheckFinding]":
    from lifebus_adapters import ADAPTERS  # noqa: PLC0415
    from lifebus_adapters.conformance import examine  # noqa: PLC0415
    from lifebus_adapters.conformance.builtin import builtin_subject  # noqa: PLC0415
    from lifebus_admin.adapter_program import examine_program  # noqa: PLC0415
    from lifebus_transports.adapter_names import adapter_id_of  # noqa: PLC0415

    if not command:
        raise UsageError(f"ADAPTER: name one of {', '.join(ADAPTERS)}, or the command of an adapter program")
    # A built-in id wins over a program of the same name; its path still names the program.
    if len(command) == 1 and adapter_id_of(command[0]) in ADAPTERS:
        return examine(builtin_subject(parse_adapter(command[0])))
    if adapter_id_of(command[0]) in ADAPTERS:
        raise UsageError(f"`{' '.join(command[1:])[:64]}`: nothing stands behind the id of a built-in adapter")
    # Checked here: a child that cannot start looks like one that fails every check.
    if shutil.which(command[0]) is None:
        raise UsageError(f"`{command[0][:64]}` is no adapter ({', '.join(ADAPTERS)}) and no program")
    return examine_program(command, seconds)


def _show_finding(finding: "CheckFinding") -> None:
    sign = paint("ok  ", "green") if finding.ok else paint("FAIL", "red")
    put(f"{sign} {finding.name.ljust(40)} {clean(finding.evidence)}")
