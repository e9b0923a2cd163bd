"""The keys of `telemetry_summary` that reducers read, and the names of lifebus's own clients."""

from collections.abc import Mapping
from typing import Final

from lifebus_contract.facts.selections import HOOK_CLIENT

FRAME: Final = "frame_id"
"""The fact that names the frame which a receipt is about."""
PARENT_FRAME: Final = "parent_frame_id"
"""The fact that names the frame around it."""
FRAME_END: Final = "frame_end"
"""The fact that says how a frame ended: ``completed``, ``failed``, ``interrupted``, ``blocked``, ``abandoned``."""
SESSION_END: Final = "session_end"
"""The fact that says how a session ended: ``completed``, ``abandoned``; of a run of a flow its status."""
CLOSED_BY: Final = "closed_by"
"""The fact that names the client by which an operator ended a session."""
FORGOTTEN: Final = "forgotten"
"""The fact that says that a session is forgotten: lists leave it out until it goes on."""
FORGOTTEN_BY: Final = "forgotten_by"
"""The fact that names the client by which an operator had it forgotten."""
ANNOUNCED_END: Final = "announced_end"
"""The fact that says how a frame or session ends, where its harness has announced an end that is not settled yet."""
ANNOUNCED_ENDS: Final = "announced_ends"
"""The fact that counts how often the end of a frame was announced: a refused stop makes its turn go on."""
LEVEL: Final = "context_pressure"
"""The fact that carries the pressure level (docs/contract.md 2.5)."""
USED: Final = "context_used_tokens"
"""The fact that carries how many tokens are used."""
PERCENT: Final = "context_used_pct"
"""The fact that carries how much of the window is used."""
SOURCE: Final = "source"
"""The fact that says where an observation came from: ``hook:PostCompact``, ``rollout``."""
SIGNAL: Final = "signal"
"""The fact that marks pressure which a harness signalled without numbers."""
CAUSE: Final = "cause"
"""The fact that says why capabilities were lost, of which loss they recovered, or why a delivery turned out false."""
COMPACTIONS_BEFORE: Final = "compactions_before"
"""The fact that says how many compactions of a session its file proves from before it was supervised."""
PROCESS: Final = "harness_process"
"""The fact that names the harness's process: ``<pid>@<start>``."""
OPERATOR: Final = "operator"
"""The fact about a harness's question to a person: ``asked``, or what became of it."""
OPERATOR_KIND: Final = "operator_kind"
"""The fact that says what kind of question it is."""
REQUEST: Final = "request_id"
"""The fact that identifies the question: text or a number."""

CWD: Final = "cwd"
"""The fact that says in which directory the session works: its path, or its name alone (`lifebus_broker.privacy`)."""
GIT_BRANCH: Final = "git_branch"
"""The fact that names the branch of that directory, as the harness says it."""
TITLE: Final = "title"
"""The fact that says what the harness calls the session."""

WAITING: Final = "waiting"
"""The fact that says that a session begins to wait for a person, or does not any more: ``begun``, ``ended``."""
WAITING_FOR: Final = "waiting_for"
"""The fact that says for what: ``permission``, ``input`` or ``idle``."""
WAITING_KIND: Final = "waiting_kind"
"""The fact that says for what kind of thing: a tool's name, the kind of a question; never its text."""
WAITING_ID: Final = "waiting_id"
"""The fact that identifies the request, where the harness has an id for it."""
WAITING_SINCE: Final = "waiting_since_ms"
"""The fact that says since when, in milliseconds since 1970."""
WAITED: Final = "waited_ms"
"""The fact that says how long a person took, in milliseconds."""
WAITING_ENDED_BY: Final = "waiting_ended_by"
"""The fact that says what shows that a session does not wait any more."""

BACKGROUND_CLIENT: Final = "client_background"
"""The fact in the receipt of a background client: the event was recorded before, and others may have followed since."""

CORRECTS: Final = "corrects"
"""The fact in a receipt that takes back what another one promised: that receipt's id."""

HOOKS: Final = HOOK_CLIENT
"""The client that speaks for hooks."""
APP_SERVER: Final = "lifebus.app_server"
"""The client that speaks for app-servers."""
SUPERVISOR: Final = "lifebus.supervisor"
"""The client under whose name supervision records what it finds."""
OWN_CLIENTS: Final = frozenset({HOOKS, APP_SERVER, SUPERVISOR})
"""The clients that speak for lifebus itself: what they record is no sign of life of an app."""


def is_applied_before(facts: Mapping[str, object]) -> bool:
    """Whether a receipt's event was applied with another receipt, so that only what is the receipt's own counts."""
    return BACKGROUND_CLIENT in facts or CORRECTS in facts
