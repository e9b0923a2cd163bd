"""The program that hands one message to apprise: a task on stdin, an outcome on stdout, both JSON."""

import sys
from importlib import import_module
from typing import Any

import msgspec
from msgspec import Struct

MISSING = "apprise is not installed; run: pip install 'lifebus[notify]'"
"""What is wrong where the extra is not installed."""


class AppriseTask(Struct, frozen=True, kw_only=True):
    """What is to be sent where."""

    url: str
    title: str
    body: str


class AppriseOutcome(Struct, frozen=True):
    """Why it was not sent, None where it was."""

    fault: str | None


def send(task: AppriseTask) -> AppriseOutcome:
    """Send a message and return what came of it; blocks."""
    try:
        apprise: Any = import_module("apprise")
    except ModuleNotFoundError as fault:
        if fault.name != "apprise":
            return AppriseOutcome(f"apprise cannot be loaded: {fault}")
        return AppriseOutcome(MISSING)
    notifier = apprise.Apprise()
    if not notifier.add(task.url):
        return AppriseOutcome("apprise does not know this kind of URL, or cannot read it")
    # As plain text: what a question says must not become markup of whatever service it is.
    if not notifier.notify(title=task.title, body=task.body, body_format="text"):
        return AppriseOutcome("apprise could not deliver it")
    return AppriseOutcome(None)


def main() -> None:
    """Read a task, send it, write the outcome."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=AppriseTask)
    outcome = send(task)
    sys.stdout.buffer.write(msgspec.json.encode(outcome))


if __name__ == "__main__":
    main()
