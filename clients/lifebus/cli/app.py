"""The tree of commands.  Only names and one-line helps are here; a command's module is imported when it runs."""

import sys
from importlib import import_module
from typing import Final

from cyclopts import App, Group, Parameter

_BUS: Final = ("The bus", 1)
_READ: Final = ("Read", 2)
_CONTRACT: Final = ("The contract", 3)
_ADMIN: Final = ("Admin", 4)

COMMANDS: Final = {
    "up": (_BUS, "bus.up:up", "Run the broker, in the foreground or with --detach in the background."),
    "service": (_BUS, "admin.service:app", "Have the broker started at login: install, status, restart, remove."),
    "down": (_BUS, "bus.down:down", "Stop the running broker."),
    "demo": (_BUS, "admin.demo:demo", "Show the bus at work on recorded sessions."),
    "emit": (_BUS, "bus.emit:emit", "Record a lifecycle event."),
    "stdio": (_BUS, "bus.proxy:stdio", "Speak the request protocol as JSON lines on stdin and stdout."),
    "run": (_BUS, "bus.proxy:run", "Run an app-server, and record its signals."),
    "tee": (_BUS, "bus.proxy:tee", "Copy the streams of a client and its app-server, and record the signals."),
    "serve": (_BUS, "bus.serve:serve", "Answer dispatches with a command."),
    "invoke": (_BUS, "bus.serve:invoke", "Ask a command about one dispatch: no broker, nothing is kept."),
    "inbox": (_BUS, "bus.inbox:app", "Questions that wait for a person: list, show, answer."),
    "jobs": (_BUS, "bus.jobs:app", "Jobs of the queue: list, show, cancel, retry, drain."),
    "checkpoint": (
        _BUS,
        "bus.checkpoint:app",
        "Save, find and export checkpoints, and compare their files.",
    ),
    "flow": (_BUS, "flows.commands:app", "Run flows: phases in order, with retries, and people where one is needed."),
    "tail": (_READ, "read.receipts:tail", "Follow receipts as they come, or read old ones."),
    "signals": (_READ, "read.signals:signals", "Follow what app-servers say, or read what is kept of it."),
    "transcript": (_READ, "read.transcript:app", "Show and export what was said in sessions."),
    "sessions": (_READ, "read.sessions:sessions", "List the sessions: which project, and what happened in them."),
    "receipts": (_READ, "read.receipts:app", "Read, export and verify the ledger."),
    "extensions": (
        _ADMIN,
        "admin.extensions:app",
        "Extensions of the broker: list, reload, trust, audit, begin one.",
    ),
    "ledger": (_ADMIN, "admin.ledger:app", "The ledger file: show, check, prune, back up, restore, export, import."),
    "snapshots": (_READ, "admin.snapshots:app", "List, show and verify what was saved."),
    "clients": (_READ, "bus.clients:app", "List clients and named consumers; lag, reset, evict, dead letters."),
    "status": (_READ, "read.status:status", "Show how the broker and the harnesses are."),
    "tick": (_READ, "read.status:tick", "Examine telemetry, processes and silence now."),
    "renewal": (_READ, "admin.renewal:app", "Show the renewal profiles and what waits for a session start."),
    "continuation": (
        _ADMIN,
        "admin.renewal:continuation_app",
        "Store, show, take and drop continuation tokens.",
    ),
    "manifest": (_CONTRACT, "contract.manifest:app", "What each adapter claims."),
    "negotiate": (_CONTRACT, "contract.negotiate:negotiate", "Ask what an adapter gives for requirements."),
    "validate": (_CONTRACT, "contract.validate:validate", "Check documents against the contract."),
    "schema": (_CONTRACT, "contract.validate:schema", "Print the JSON Schema of a document."),
    "conform": (_CONTRACT, "contract.manifest:conform_app", "Check an adapter, or a runtime of Loa workflows."),
    "events": (_CONTRACT, "contract.validate:events", "List the lifecycle events."),
    "compactions": (
        _ADMIN,
        "admin.compactions:app",
        "Views derived from the log: list, verify, rebuild, delete.",
    ),
    "save": (
        _ADMIN,
        "admin.snapshots:save",
        "Take a snapshot of the state, as digests and pointers.",
    ),
    "boot": (_ADMIN, "admin.boot:boot", "Rebuild the state from a snapshot and the log, prove it, show what was open."),
    "hooks": (
        _ADMIN,
        "admin.hooks:app",
        "Install lifebus into a coding harness, show its status, take it out again.",
    ),
    "doctor": (_ADMIN, "admin.doctor:doctor", "Check everything; say what is wrong and how to repair it."),
    "config": (_ADMIN, "admin.config:app", "Show and check the settings."),
    "completions": (_ADMIN, "admin.config:completions", "Print a completion script for a shell."),
    "version": (
        _ADMIN,
        "contract.version:version",
        "Print the versions; with --all those of every library and of the broker.",
    ),
}
"""Every command: its group, where its function or sub-app lives, and its help."""


def make_app() -> App:
    """Return the application; nothing of a command is imported yet."""
    groups = {group: Group(group[0], sort_key=group[1]) for group, _, _ in COMMANDS.values()}
    app = App(
        name="lifebus",
        help="A lifecycle bus for AI coding harnesses: events in, receipts out, on a durable ledger.",
        version=_version,
        default_parameter=Parameter(negative=(), show_default=False),
        help_format="plaintext",
        help_formatter="default" if sys.stdout.isatty() else "plain",
    )
    for name, (group, target, text) in COMMANDS.items():
        # By name: the module is imported only when its command runs or its help is shown.
        app.command(f"lifebus.cli.{target}", name=name, help=text, group=groups[group])
    return app


def subcommands(name: str) -> list[str]:
    """Return the names of the commands of a group; none for a command that is no group."""
    module, _, member = COMMANDS[name][1].partition(":")
    found = getattr(import_module(f"lifebus.cli.{module}"), member)
    return [one for one in found if not one.startswith("-")] if isinstance(found, App) else []


def _version() -> str:
    from lifebus_supervisor.version import VERSION  # noqa: PLC0415

    return VERSION
