"""`codex exec --json`, as measured with 0.169.0: one object a line; the usage comes with the end of the turn.  Pure.

Of a session that goes on it is that of the whole session.  Input tokens include those from the cache.  Which model
answered, and how often it was asked, is not said.
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
    name,
    part,
    records,
)


def _read(stdout: bytes, _stderr: bytes) -> OneShotReport:
    session, failed, reason, tokens = None, None, "", None
    for record in records(stdout):
        match record.get("type"):
            case "thread.started":
                session = name(record.get("thread_id"))
            case "turn.completed":
                usage = part(record, "usage")
                failed = False
                tokens = TokenUse(
                    input_tokens=count(usage.get("input_tokens")),
                    output_tokens=count(usage.get("output_tokens")),
                    cache_read_tokens=count(usage.get("cached_input_tokens")),
                    cache_write_tokens=count(usage.get("cache_write_input_tokens")),
                )
            case "turn.failed":
                failed, reason = True, message(part(record, "error").get("message"))
            case _:  # items of the turn
                continue
    return OneShotReport(session_id=session, failed=failed, message=reason, tokens=tokens, is_session_sum=True)


ONE_SHOT: Final = OneShot(
    words=("codex", "exec", "--json"),
    prompt_words=("--",),  # without it a prompt such as `resume` would be a command
    read=_read,
    variables=("CODEX_*", "OPENAI_*"),
    codes=code_map(retry={1: "failed"}, alert={2: "usage"}),
)
"""Codex's one-shot mode."""

COMPACTION: Final = NoCompaction("`codex exec` takes `/compact` for a prompt: only its app-server compacts on request")
"""Why no session of it is compacted on request."""
