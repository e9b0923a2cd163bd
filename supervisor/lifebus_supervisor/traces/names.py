"""The names of spans, events and attributes that are exported; a test compares them with docs/traces.md.  Pure.

Those that begin with `gen_ai.` are of the GenAI conventions of OpenTelemetry, `session.id`, `error.type` and
`log.record.uid` of its general ones, and all others are lifebus's own.
"""

from collections.abc import Mapping
from typing import Final

SESSION: Final = "session"
INVOKE_AGENT: Final = "invoke_agent"
STEP: Final = "step"
DISPATCH: Final = "dispatch"

OPERATION: Final = "gen_ai.operation.name"
AGENT_NAME: Final = "gen_ai.agent.name"
PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION: Final = "gen_ai.conversation.id"
MODEL: Final = "gen_ai.request.model"
SESSION_ID: Final = "session.id"
ERROR: Final = "error.type"
RECORD: Final = "log.record.uid"

ADAPTER: Final = "lifebus.adapter"
SESSION_END: Final = "lifebus.session.end"
SESSION_SOURCE: Final = "lifebus.session.source"
SESSION_RESUMED: Final = "lifebus.session.resumed"
SESSION_TURNS: Final = "lifebus.session.turns"
SESSION_SUBAGENTS: Final = "lifebus.session.subagents"
SESSION_COMPACTIONS: Final = "lifebus.session.compactions"
FRAME: Final = "lifebus.frame.id"
FRAME_END: Final = "lifebus.frame.end"
FRAME_CLASS: Final = "lifebus.frame.class"
PRESSURE: Final = "lifebus.context.pressure"
USED_TOKENS: Final = "lifebus.context.used_tokens"
USED_PCT: Final = "lifebus.context.used_pct"
WINDOW_TOKENS: Final = "lifebus.context.window_tokens"
CLIENT: Final = "lifebus.client.id"
BACKGROUND: Final = "lifebus.client.background"
EXIT_CODE: Final = "lifebus.client.exit_code"
EVENT: Final = "lifebus.event"
INVOCATION: Final = "lifebus.invocation.id"
STATUS: Final = "lifebus.status"
RETRY: Final = "lifebus.retry_class"
WARNINGS: Final = "lifebus.warnings"
DELIVERED: Final = "lifebus.payloads.delivered"
DEGRADED: Final = "lifebus.payloads.degraded"
SKIPPED: Final = "lifebus.payloads.skipped"
FAILED: Final = "lifebus.payloads.failed"
LINK: Final = "lifebus.link"
SEQUENCE: Final = "lifebus.sequence"
POSITION: Final = "lifebus.position"
EPOCH: Final = "lifebus.ledger.epoch"
CAPABILITY: Final = "lifebus.capability"
SUPPORT_BEFORE: Final = "lifebus.support.before"
SUPPORT_NOW: Final = "lifebus.support.now"
FACT_PREFIX: Final = "lifebus.fact."

PRESSURE_EVENT: Final = "lifebus.pressure"
COMPACTED_EVENT: Final = "lifebus.compacted"
WAITING_EVENT: Final = "lifebus.waiting"
DEGRADED_EVENT: Final = "lifebus.degraded"
GAP_EVENT: Final = "lifebus.gap"
CORRECTED_EVENT: Final = "lifebus.corrected"
FAILED_EVENT: Final = "lifebus.failed"

PROVIDERS: Final[Mapping[str, str]] = {"claude": "anthropic", "codex": "openai", "gemini": "gcp.gemini"}
"""The provider of harnesses which are made for one; of the others nobody knows."""

LINKS: Final = ("session", "resumed", "continues", "frame")
"""What a link says of the span to which it leads."""
