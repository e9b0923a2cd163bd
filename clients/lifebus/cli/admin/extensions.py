"""`lifebus extensions`: what the broker's extensions are, and who may run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import clean, paint, put, put_json, put_table, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifebus_contract.extensions import AuditRecord, ExtensionInfo, LoadError

app = App(name="extensions")

_MANIFEST: Final = """\
name = "{name}"
version = "0.1.0"

[runtime]
api = ">=1,<2"

[capabilities]
events = ["lifecycle.frame.ended"]
actions = []
"""

_CODE: Final = '''\
"""What {name} does when something happens on the bus."""

from lifebus.extensions import Event, Receipt, Tools, on


@on("lifecycle.frame.ended")
async def frame_ended(event: Event[Receipt], tools: Tools) -> None:
    """Say which frame has ended."""
    tools.log.info("a frame has ended", frame=event.payload.frame_id)
'''


@app.default
@app.command(name="list")
def list_extensions(*, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """List the loaded extensions, and those that were left out at the start.

    Args:
        connection: Where the broker is, and the form of the answer.
    """
    found = on_bus(connection, lambda bus: bus.extensions.list())
    if connection.json:
        put_json(found)
        return ExitCode.OK
    if found.modules:
        put_table(("extension", "version", "from", "trust", "events", "path"), [_row(one) for one in found.modules])
    else:
        say("no extension is loaded" if not found.is_loading else "extensions are being loaded")
    _put_errors(found.errors)
    if found.lost_events:
        say(f"{found.lost_events} events were lost: handlers are slower than what happens")
    return ExitCode.OK


@app.command
def reload(*, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """Load all extensions anew; with any error nothing changes.

    Args:
        connection: Where the broker is, and the form of the answer.
    """
    answer = on_bus(connection, lambda bus: bus.extensions.reload())
    if connection.json:
        put_json(answer)
    elif answer.status == "ok":
        put(f"{answer.loaded_count} loaded, version {clean(answer.snapshot_version)}")
    else:
        say(f"{clean(answer.message or '')}: version {clean(answer.snapshot_version)} stays")
        _put_errors(answer.errors)
    return ExitCode.OK if answer.status == "ok" else ExitCode.NEGATIVE


@app.command
def trust(
    name: str,
    /,
    *,
    hash: Annotated[str | None, Parameter(name="--hash")] = None,  # noqa: A002  the flag's name
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Record that the present files of an extension are trusted; `reload` loads them then.

    Args:
        name: The name of its folder.
        hash: Trust them only if this is their hash, `sha256:` and 64 digits.
        connection: Where the broker is, and the form of the answer.
    """
    answer = on_bus(connection, lambda bus: bus.extensions.trust(name, expected_hash=hash))
    if connection.json:
        put_json(answer)
    else:
        put(f"{paint(clean(answer.module_name), 'bold')} is trusted as it is: {answer.content_hash}")
        put(clean(f"{answer.path}: {', '.join(answer.files)}"))
        say("run `lifebus extensions reload` to load it")
    return ExitCode.OK


@app.command
def audit(*, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """Show who loaded, trusted and was refused.

    Args:
        connection: Where the broker is, and the form of the answer.
    """
    found = on_bus(connection, lambda bus: bus.extensions.audit())
    if connection.json:
        put_json(found)
    elif found:
        heads = ("time", "what", "by", "result", "mode", "version", "extensions", "why")
        put_table(heads, [_audit_row(one) for one in found])
    else:
        say("nothing was loaded yet")
    return ExitCode.OK


@app.command
def new(name: str, /, *, root: Annotated[Path | None, Parameter(name="--in")] = None, json: bool = False) -> ExitCode:
    """Write a first extension to build on; needs no broker.

    Args:
        name: The name of its folder.
        root: The folder to make it in; by default `agents` beside the configuration file, where it is found.
        json: Answer in JSON.
    """
    import os  # noqa: PLC0415

    from lifebus_supervisor.extensions.rules.discovery import NOT_IN_REPO  # noqa: PLC0415
    from lifebus_transports.directories import default_config_path  # noqa: PLC0415

    if not name.isidentifier():
        raise UsageError(f"`{clean(name[:64])}` is no name: letters, digits and `_`, and no digit at its beginning")
    if name in NOT_IN_REPO:
        raise UsageError(f"a folder `{name}` is left out of `extensions.roots`; take another name")
    folder = (root or default_config_path(os.environ).parent / "agents") / name
    try:
        # Closed to others: what others may write to is not loaded.
        folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        folder.mkdir(mode=0o755)
    except FileExistsError:
        raise UsageError(f"{clean(str(folder))} is there already") from None
    (folder / "extension.toml").write_text(_MANIFEST.format(name=name))
    (folder / "events.py").write_text(_CODE.format(name=name))
    if json:
        put_json({"folder": str(folder), "files": ["extension.toml", "events.py"]})
        return ExitCode.OK
    put(clean(f"{folder}: extension.toml, events.py"))
    # Which roots the broker has, nobody is asked here.
    where = "" if root is None else f", where {clean(str(root))} is one of its roots"
    say(f"run `lifebus extensions reload` to load it{where}")
    return ExitCode.OK


def _row(one: "ExtensionInfo") -> tuple[str, ...]:
    trusted = one.trust.status.value
    return one.module_name, one.version, one.origin.type.value, trusted, ", ".join(one.events), one.origin.path


def _audit_row(one: "AuditRecord") -> tuple[str, ...]:
    who = f"{one.actor_id or '-'} ({one.actor_role})"
    version = one.snapshot_after or one.snapshot_before
    names = ", ".join(one.impacted_extensions)
    why = one.error_summary or ""
    return one.recorded_at, one.action, who, one.result, one.trust_mode.value, version[:8], names, why


def _put_errors(errors: "Sequence[LoadError]") -> None:
    for one in errors:
        say(f"{paint(clean(one.extension), 'red')}: {clean(one.message)} ({one.code.value})")
