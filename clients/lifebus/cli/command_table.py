"""The commands: their names, where they live and one line of help each.  Nothing of a command is imported."""

TYPE_CHECKING = False  # the first screen is shown without `typing`, which takes as long as all of it
if TYPE_CHECKING:
    from typing import Final


class Row:
    """A command: where its function or sub-app lives, what it is for, and what of it the first screen names.

    `members` are, of a group, those of its commands that users look for.
    """

    __slots__ = ("help", "members", "target")

    def __init__(self, target: str, help: str, members: "tuple[str, ...]" = ()) -> None:  # noqa: A002  as `App` calls it
        self.target = target
        self.help = help
        self.members = members


FIRST: "Final" = {
    "up": Row("bus.up:up", "Run the broker, here or with --detach in the background."),
    "down": Row("bus.down:down", "Stop the running broker."),
    "status": Row("read.status:status", "Show the state of the broker and of each harness."),
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
    "demo": Row("admin.demo:demo", "Show the bus at work on recorded sessions."),
}
"""The commands of the first screen, in its order."""

FURTHER: "Final" = {
    "dashboard": Row("bus.dashboard:dashboard", "Open the page that shows all this in a browser."),
    "transcript": Row("read.transcript:app", "Show and export what was said in sessions."),
    "flow": Row("flows.commands:app", "Run flows: phases in order, with retries, and people where one is needed."),
    "inbox": Row("bus.inbox:app", "Questions that wait for a person: list, show, answer."),
    "jobs": Row("bus.jobs:app", "Jobs of the queue: list, show, cancel, retry, drain."),
    "checkpoint": Row("bus.checkpoint:app", "Save, find and export checkpoints, and compare their files."),
    "extensions": Row("admin.extensions:app", "Extensions of the broker: list, reload, trust, audit, begin one."),
    "cloudevents": Row("relays.cloudevents:cloudevents", "Send receipts as CloudEvents to an address, or to stdout."),
    "otel": Row("relays.otel:otel", "Export turns as traces, and receipts as logs, to OpenTelemetry."),
    "serve": Row("bus.serve:serve", "Answer dispatches with a command."),
    "emit": Row("bus.emit:emit", "Record a lifecycle event."),
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

COMMANDS: "Final" = FIRST | FURTHER
"""Every command of the first level."""
