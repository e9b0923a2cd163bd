"""`hermes -z --usage-file`, as measured with 0.19.0: the answer alone on stdout, a report on stderr.  Pure.

It ends with 0 also where the model refused: only the report says so, and then names no session.  Input tokens leave out
those from and for the cache.
"""

from typing import Final

from lifebus_adapters.shared.compaction import NoCompaction
from lifebus_adapters.shared.one_shot import (
    OneShot,
    OneShotReport,
    TokenUse,
    code_map,
    count,
    last_document,
    message,
    micros,
    name,
)


def _read(stdout: bytes, stderr: bytes) -> OneShotReport:
    report = last_document(stderr)
    if "failed" not in report:
        return OneShotReport()
    failed = bool(report["failed"])
    reason = report.get("failure") or stdout.decode(errors="replace")
    read, written = count(report.get("cache_read_tokens")), count(report.get("cache_write_tokens"))
    is_priced = report.get("cost_status") not in (None, "unknown")  # else it says 0
    return OneShotReport(
        session_id=name(report.get("session_id")),
        failed=failed,
        message=message(reason) if failed else "",
        model=name(report.get("model")),
        calls=count(report.get("api_calls")),
        tokens=TokenUse(
            input_tokens=count(report.get("input_tokens")) + read + written,
            output_tokens=count(report.get("output_tokens")),
            cache_read_tokens=read,
            cache_write_tokens=written,
        ),
        cost_micros=micros(report.get("estimated_cost_usd")) if is_priced else None,
    )


ONE_SHOT: Final = OneShot(
    words=("hermes", "--usage-file", "/dev/stderr"),
    prompt_words=("--oneshot=",),
    read=_read,
    variables=("HERMES_*", "OPENAI_*", "OPENROUTER_*", "ANTHROPIC_*", "NOUS_*"),
    codes=code_map(retry={1: "failed"}, alert={2: "usage"}),
)
"""Hermes's one-shot mode."""

COMPACTION: Final = NoCompaction("Hermes's one-shot mode takes `/compress` for a prompt")
"""Why no session of it is compacted on request."""
