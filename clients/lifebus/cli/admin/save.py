"""`lifebus save`: write down what the ledger's state is, as digests and pointers (docs/ledger.md, "Saves")."""

from pathlib import Path
from typing import TYPE_CHECKING

from lifebus.cli.arguments import DEFAULTS, Connecting, UsageError, parse_choice
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import clean, put, put_json, say
from lifebus_contract import TransportError

if TYPE_CHECKING:
    from lifebus_transports.messages.snapshots import SaveAnswer, SaveTypeName

_TYPES: "dict[str, SaveTypeName]" = {"scene": "SCENE", "session": "SESSION", "campaign": "CAMPAIGN"}


def save(which: str, /, *, to: Path | None = None, connecting: Connecting = DEFAULTS) -> ExitCode:
    """Save now; without a broker, from the ledger file.  Nothing is written to the log.

    Args:
        which: How much is saved: scene, session or campaign, each all of the one before and more.
        to: With campaign: write the bundle into this new file, all that is needed to boot on another machine.
        connecting: Where the broker is, and the form of the answer.
    """
    save_type = _TYPES[parse_choice("save", which, list(_TYPES))]
    if to is not None:
        if save_type != "CAMPAIGN":
            raise UsageError(f"--to: only a campaign is written into a file: lifebus save campaign --to {to}")
        return _bundle(to, json=connecting.json)
    answer = _save(save_type, connecting)
    if connecting.json:
        put_json(answer)
    else:
        kept = "saved" if answer.new else "was saved already, and nothing has changed since"
        put(f"{answer.snapshot_id}  {which}, position {answer.position}: {kept}")
    return ExitCode.OK


def _bundle(to: Path, *, json: bool) -> ExitCode:
    """Write a campaign as one file, beside a broker or without one."""
    from lifebus_admin.snapshots.archive import save_campaign  # noqa: PLC0415
    from lifebus_supervisor.configuration.resolution import load  # noqa: PLC0415

    snapshot = save_campaign(load()[0], to)
    found = {"snapshot_id": snapshot.snapshot_id, "position": snapshot.timestamp_event_id, "file": str(to)}
    if json:
        put_json(found)
    else:
        put(f"{snapshot.snapshot_id}  campaign, position {found['position']}: written to {clean(to)}")
        say(f"`lifebus boot {to}` boots it anywhere", color="dim")
    return ExitCode.OK


def _save(save_type: "SaveTypeName", connecting: Connecting) -> "SaveAnswer":
    """Have the broker save, or without one do it here."""
    try:
        return on_bus(connecting, lambda bus: bus.saves.save(save_type))
    except TransportError as fault:
        if fault.code != "no_broker":
            raise
    from lifebus_supervisor.configuration.resolution import load  # noqa: PLC0415
    from lifebus_supervisor.jobs.state_directory import save_file  # noqa: PLC0415

    settings, _ = load()
    say(f"no broker answers; saving {settings.ledger_path}", color="dim")
    return save_file(settings, save_type)
