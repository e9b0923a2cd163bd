"""What OpenClaw leaves behind: one database an agent, and the token counts in its plugin's calls (2026.9.6).

`llm_output` comes at the end of a run: its `usage` adds up all requests, its last message has that of the last one.
The counts of before_compaction and after_compaction are documented and were not seen.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from lifebus_adapters.openclaw.database import AgentReader, CallUsage
from lifebus_adapters.shared.fields import Payload, count, find, identifier
from lifebus_adapters.shared.sources import database
from lifebus_adapters.shared.telemetry import Fact, SourceSpec, Surroundings, Usage, WindowKnown
from lifebus_contract import InvalidRequest

_DATABASE: Final = re.compile(r"/agents/[^/]+/agent/openclaw-agent\.sqlite\Z")
_COMPACTIONS: Final = frozenset({"before_compaction", "after_compaction"})


def _roots(surroundings: Surroundings) -> Sequence[str]:
    state, home = surroundings.first("OPENCLAW_STATE_DIR"), surroundings.first("OPENCLAW_HOME")
    if state:
        return (f"{state[1]}/agents",)
    return (f"{home[1] if home else surroundings.home}/.openclaw/agents",)


def _is_ours(path: str) -> bool:
    return _DATABASE.search(path) is not None


SOURCES: Final[tuple[SourceSpec, ...]] = (
    database(roots=_roots, is_ours=_is_ours, make_reader=AgentReader, pattern="*/agent/openclaw-agent.sqlite"),
)
"""The databases of the agents."""


def hook_facts(hook: str, payload: Payload, session: str) -> tuple[Fact, ...]:
    """Return the facts in the payload of a call: how full the context is, how large its window.

    Raises:
        InvalidRequest: a count is no number of tokens.
    """
    if hook == "llm_output":
        return _output(payload, session)
    used = count(payload, "event.tokenCount") if hook in _COMPACTIONS else None
    return () if used is None else (Usage(session=session, used_tokens=used, used_source=f"hook:{hook}.tokenCount"),)


def _output(payload: Payload, session: str) -> tuple[Fact, ...]:
    window = count(payload, "event.contextTokenBudget") or None
    source = "hook:llm_output.contextTokenBudget" if window else None
    usage = find(payload, "event.lastAssistant.usage")
    # `usage` of the call itself adds up all requests of the run: it may be more than the window.
    if usage is not None:
        return (
            Usage(
                session=session,
                used_tokens=_call_usage(usage).prompt,
                used_source="hook:llm_output.lastAssistant.usage.prompt",
                window_tokens=window,
                window_source=source,
                model=identifier(payload, "event.model"),
            ),
        )
    if window is None or source is None:
        return ()
    return (WindowKnown(session=session, window_tokens=window, window_source=source),)


def _call_usage(usage: object) -> CallUsage:
    try:
        return msgspec.convert(usage, CallUsage)
    except msgspec.ValidationError:
        raise InvalidRequest("no token counts", code="wrong_type", field="$.event.lastAssistant.usage") from None
