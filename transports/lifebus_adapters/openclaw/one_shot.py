"""`openclaw agent --local --json`, as measured with 2026.9.6: one object over many lines, at the end alone.  Pure.

It has to be given a session.  Input tokens leave out those from and for the cache; a cost of 0 is one that it does not
know.  A failure names no session.
"""

from typing import Final

from lifebus_adapters.shared.compaction import NoCompaction
from lifebus_adapters.shared.one_shot import (
    FRESH_SESSION,
    OneShot,
    OneShotReport,
    TokenUse,
    code_map,
    count,
    last_document,
    message,
    micros,
    name,
    part,
)


def _read(stdout: bytes, _stderr: bytes) -> OneShotReport:
    document = last_document(stdout)
    if document.get("ok") is False:
        return OneShotReport(failed=True, message=message(part(document, "error").get("message")))
    meta, agent = part(document, "meta"), part(document, "meta", "agentMeta")
    if not agent:
        return OneShotReport()
    usage = part(agent, "usage")
    read, written = count(usage.get("cacheRead")), count(usage.get("cacheWrite"))
    failed = meta.get("aborted") is True
    return OneShotReport(
        session_id=name(agent.get("sessionId")),
        failed=failed,
        message="the turn was aborted" if failed else "",
        model=name(agent.get("model")),
        calls=count(agent.get("assistantTurns")),
        tokens=TokenUse(
            input_tokens=count(usage.get("input")) + read + written,
            output_tokens=count(usage.get("output")),
            cache_read_tokens=read,
            cache_write_tokens=written,
        ),
        cost_micros=micros(agent.get("costUsd")) or None,
    )


ONE_SHOT: Final = OneShot(
    words=("openclaw", "agent", "--local", "--json", "--session-id", FRESH_SESSION),
    prompt_words=("--message=",),
    read=_read,
    variables=("OPENCLAW_*", "OPENAI_*", "ANTHROPIC_*", "GEMINI_*", "OPENROUTER_*"),
    codes=code_map(retry={1: "failed"}, alert={}),
)
"""OpenClaw's one-shot mode, without its Gateway."""

COMPACTION: Final = NoCompaction(
    "its command `openclaw sessions compact` needs a running Gateway, which a one-shot run does without"
)
"""Why no session of it is compacted on request."""
