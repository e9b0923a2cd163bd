"""`lifebus clients`."""

from lifebus.cli.arguments import DEFAULTS, Connecting
from lifebus.cli.broker import on_bus
from lifebus.cli.exits import ExitCode
from lifebus.cli.terminal import put_json, put_table, say

__all__ = ["clients"]


def clients(*, connecting: Connecting = DEFAULTS) -> ExitCode:
    """List the callback clients that are connected: what they want, and how often they failed.

    Args:
        connecting: Where the broker is, and the form of the answer.
    """
    found = on_bus(connecting, lambda bus: bus.clients())
    if connecting.json:
        put_json(found)
    elif found:
        titles = ("client", "kind", "adapters", "deadline", "dispatched", "failed", "events")
        put_table(
            titles,
            [
                (
                    one.client_id,
                    f"{one.kind}, background" if one.background else one.kind,
                    ",".join(one.adapters) or "all",
                    f"{one.deadline_ms} ms",
                    str(one.dispatched),
                    str(one.failed),
                    ",".join(event.value for event in one.events),
                )
                for one in found
            ],
        )
    else:
        say("no callback client is connected")
    return ExitCode.OK
