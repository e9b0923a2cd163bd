"""The tree of commands.  Only names and one-line helps are here; a command's module is imported when it runs."""

from collections.abc import Iterable
from importlib import import_module
from typing import Final, NamedTuple

from cyclopts import App, Group, Parameter

from lifebus.cli.help_pages import FirstScreen, Further, HelpPages


class Row(NamedTuple):
    """A command: where its function or sub-app lives, what it is for, and what of it the first screen names."""

    target: str
    help: str
    members: tuple[str, ...] = ()
    "Of a group: those of its commands that users look for."


FIRST: Final = {
    "up": Row("bus.up:up", "Run the broker, here or with --detach in the background."),
    "down": Row("bus.down:down", "Stop the running broker."),
    "status": Row("read.status:status", "Show how the broker and the harnesses are."),
    "doctor": Row("admin.doctor:doctor", "Check everything; say what is wrong and how to repair it."),
    "hooks": Row("admin.hooks:app", "Install lifebus into a coding harness, or take it out again."),
    "top": Row("read.top:top", "Watch sessions, receipts and questions on one screen, live."),
    "tail": Row("read.tail:tail", "Follow receipts as they come, or read old ones."),
    "sessions": Row("read.sessions:app", "List the sessions: which project, and what happened."),
    "receipts": Row("read.receipts:app", "Read, export and verify what was recorded."),
    # Tools of the box stand here, with their modules in `tools`.
    "notify": Row("tools.notify:notify", "Tell you when a session waits, ends, fails or is full."),
    "inject": Row("tools.inject:inject", "Put a text into the context of sessions that begin."),
    "report": Row("tools.report:report", "Sum up what happened, by harness and project."),
    "clients": Row("bus.clients:app", "List clients and named consumers, and how far they are."),
    "config": Row("admin.config:app", "Show and check the settings."),
}
"""The commands of the first screen, in its order."""

FURTHER: Final = {
    "transcript": Row("read.transcript:app", "Show and export what was said in sessions."),
    "flow": Row("flows.commands:app", "Run flows: phases in order, with retries, and people where one is needed."),
    "inbox": Row("bus.inbox:app", "Questions that wait for a person: list, show, answer."),
    "jobs": Row("bus.jobs:app", "Jobs of the queue: list, show, cancel, retry, drain."),
    "checkpoint": Row("bus.checkpoint:app", "Save, find and export checkpoints, and compare their files."),
    "extensions": Row("admin.extensions:app", "Extensions of the broker: list, reload, trust, audit, begin one."),
    "serve": Row("bus.serve:serve", "Answer dispatches with a command."),
    "emit": Row("bus.emit:emit", "Record a lifecycle event."),
    "demo": Row("admin.demo:demo", "Show the bus at work on recorded sessions."),
    "service": Row("admin.service:app", "Have the broker started at login: install, status, restart, remove."),
    "version": Row(
        "contract.version:version", "Print the versions; with --all those of every library and of the broker."
    ),
    "completions": Row("admin.config:completions", "Print a completion script for a shell."),
    "ledger": Row(
        "admin.ledger:app",
        "The ledger file, and what is saved of it: check, prune, back up, snapshots, boot.",
        ("save", "boot", "snapshots", "caches"),
    ),
    "app-server": Row(
        "bus.app_server:app", "Run an app-server or listen to one, and read its signals.", ("run", "tee", "signals")
    ),
    "contract": Row(
        "contract.commands:app",
        "The contract: documents, manifests, events, and what adapters have to fulfil.",
        ("validate", "schema", "negotiate", "manifest", "events", "conform"),
    ),
    "renewal": Row(
        "admin.renewal:app", "Renewal profiles, and tokens that wait for a session start.", ("continuation",)
    ),
    "dev": Row(
        "bus.dev:app",
        "For those who build on lifebus: a dispatch by hand, the JSON lines protocol, a tick.",
        ("invoke", "stdio", "tick"),
    ),
}
"""All other commands; most are groups.  The first screen has their names."""

COMMANDS: Final = FIRST | FURTHER
"""Every command of the first level."""


def make_app() -> App:
    """Return the application; nothing of a command is imported yet."""
    members = {name: row.members for name, row in FURTHER.items()}
    first = Group("First", sort_key=1, help_formatter=FirstScreen())
    further = Group("More; each has a --help of its own", sort_key=2, help_formatter=Further(members))
    app = App(
        name="lifebus",
        help="A lifecycle bus for AI coding harnesses: events in, receipts out.",
        version=_version,
        default_parameter=Parameter(negative=(), show_default=False),
        help_format="plaintext",
        help_formatter=HelpPages(),
    )
    for flag in ("--help", "--version"):
        app[flag].show = False
    for number, (name, row) in enumerate(COMMANDS.items()):
        # By name: the module is imported only when its command runs or its help is shown.
        group = first if name in FIRST else further
        app.command(f"lifebus.cli.{row.target}", name=name, help=row.help, group=group, sort_key=number)
    return app


def known_words(words: Iterable[str]) -> list[str]:
    """Return as many words from the beginning as are names of a command and of commands within it."""
    known: list[str] = []
    found: object = None
    for word in words:
        if known and not (isinstance(found, App) and word in found and not word.startswith("-")):
            break
        if not known and word not in COMMANDS:
            break
        found = _target(COMMANDS[word].target) if not known else _member(found, word)
        known.append(word)
    return known


def _target(target: str) -> object:
    module, _, member = target.partition(":")
    return getattr(import_module(f"lifebus.cli.{module}"), member)


def _member(group: object, name: str) -> object:
    return group[name] if isinstance(group, App) else None


def _version() -> str:
    from lifebus_supervisor.version import VERSION  # noqa: PLC0415

    return VERSION
