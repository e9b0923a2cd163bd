"""`opencode run --format json`, as measured with 1.18.33: one object a line; each answer's tokens come with it.  Pure.

Input tokens leave out those from and for the cache.  Which model answered is not said.
"""

from typing import Final

from lifebus_adapters.shared.compaction import NoCompaction
from lifebus_adapters.shared.one_shot import (
    OneShot,
    OneShotReport,
    TokenUse,
    code_map,
    count,
    message,
    micros,
    name,
    part,
    records,
)


def _read(stdout: bytes, _stderr: bytes) -> OneShotReport:
    session = failed = None
    reason = ""
    sent = answered = read = written = calls = cost = 0
    for record in records(stdout):
        session = name(record.get("sessionID")) or session
        step = part(record, "part")
        match record.get("type"):
            case "error":
                failed = True
                reason = message(part(record, "error", "data").get("message")) or reason
            case "step_finish":
                tokens, cache = part(step, "tokens"), part(step, "tokens", "cache")
                calls += 1
                read += count(cache.get("read"))
                written += count(cache.get("write"))
                sent += count(tokens.get("input"))
                answered += count(tokens.get("output")) + count(tokens.get("reasoning"))
                cost += micros(step.get("cost")) or 0
                # The one that ends with tool calls is followed by another.
                failed = failed if step.get("reason") == "tool-calls" else bool(failed)
            case _:
                continue
    return OneShotReport(
        session_id=session,
        failed=failed,
        message=reason,
        calls=calls,
        tokens=TokenUse(
            input_tokens=sent + read + written,
            output_tokens=answered,
            cache_read_tokens=read,
            cache_write_tokens=written,
        ),
        cost_micros=cost or None,  # 0 where it knows no price
    )


ONE_SHOT: Final = OneShot(
    words=("opencode", "run", "--format", "json"),
    prompt_words=("--",),
    read=_read,
    variables=("OPENCODE_*", "OPENAI_*", "ANTHROPIC_*", "GEMINI_*", "GOOGLE_*"),
    codes=code_map(retry={1: "failed"}, alert={}),
)
"""OpenCode's one-shot mode."""

COMPACTION: Final = NoCompaction("`opencode run` has no command that compacts: only its terminal and its server do")
"""Why no session of it is compacted on request."""
