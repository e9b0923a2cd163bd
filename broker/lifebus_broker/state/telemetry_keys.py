"""The words by which receipts tell of states: facts in `telemetry_summary`, and the names of lifebus's own clients.

Above: story, pending, the supervisor.  Below: nothing.
"""

from typing import Final

__all__ = [
    "APP_SERVER",
    "BEFORE",
    "CAUSE",
    "FRAME",
    "HOOKS",
    "LATE",
    "LEVEL",
    "OPERATOR",
    "OPERATOR_KIND",
    "OWN_CLIENTS",
    "PARENT_FRAME",
    "PERCENT",
    "PROCESS",
    "REQUEST",
    "SIGNAL",
    "SOURCE",
    "SUPERVISOR",
    "USED",
]

FRAME: Final = "frame_id"
"""The fact that names the frame which a receipt is about."""
PARENT_FRAME: Final = "parent_frame_id"
"""The fact that names the frame around it."""
LEVEL: Final = "context_pressure"
"""The fact that carries the pressure level (lifecycle-contract, "Receipt Schema")."""
USED: Final = "context_used_tokens"
"""The fact that carries how many tokens are used."""
PERCENT: Final = "context_used_pct"
"""The fact that carries how much of the window is used."""
SOURCE: Final = "source"
"""The fact that says where an observation came from: ``hook:PostCompact``, ``rollout``."""
SIGNAL: Final = "signal"
"""The fact that marks pressure which a harness signalled without numbers."""
CAUSE: Final = "cause"
"""The fact that says why capabilities were lost, or of which loss they recovered."""
BEFORE: Final = "compactions_before"
"""The fact that tells how many compactions of a session its file proves from before it was supervised."""
PROCESS: Final = "harness_process"
"""The fact that names the harness's process: ``<pid>@<start>``."""
OPERATOR: Final = "operator"
"""The fact that tells of a harness's question to a person: ``asked``, or what became of it."""
OPERATOR_KIND: Final = "operator_kind"
"""The fact that says what kind of question it is."""
REQUEST: Final = "request_id"
"""The fact that tells the question from others: text or a number."""

LATE: Final = "client_background"
"""The fact in the receipt of a background client: others told of the same before, and much may have happened since."""

HOOKS: Final = "lifebus.hook"
"""The client that speaks for hooks."""
APP_SERVER: Final = "lifebus.app_server"
"""The client that speaks for app-servers."""
SUPERVISOR: Final = "lifebus.supervisor"
"""The client under whose name supervision records what it finds."""
OWN_CLIENTS: Final = frozenset({HOOKS, APP_SERVER, SUPERVISOR})
"""The clients that speak for lifebus itself: what they record is no sign of life of an app."""
