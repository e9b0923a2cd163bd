"""`gemini -p -o stream-json`, as measured with 0.61.0: one object a line, the last one is the result.  Pure.

Input tokens include those from the cache.  Where the model refused, the exit code is the HTTP status modulo 256.
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

_BYTE: Final = 256
_PASSING_STATUS: Final = {408: "timeout", 429: "rate_limit", 500: "server", 502: "gateway", 503: "busy", 504: "gateway"}
_LASTING_STATUS: Final = {401: "unauthorized", 403: "forbidden", 404: "no_model"}
_REPAIRS: Final = {41: "authentication", 44: "sandbox", 52: "configuration", 55: "untrusted_workspace"}


def _read(stdout: bytes, _stderr: bytes) -> OneShotReport:
    session = model = failed = tokens = None
    reason = ""
    for record in records(stdout):
        match record.get("type"):
            case "init":
                session, model = name(record.get("session_id")), name(record.get("model"))
            case "result":
                stats = part(record, "stats")
                failed = record.get("status") != "success"
                reason = message(part(record, "error").get("message"))
                tokens = TokenUse(
                    input_tokens=count(stats.get("input_tokens")),
                    output_tokens=count(stats.get("output_tokens")),
                    cache_read_tokens=count(stats.get("cached")),
                )
                model = next(filter(None, map(name, part(stats, "models"))), model)
            case _:
                continue
    return OneShotReport(session_id=session, failed=failed, message=reason, model=model, tokens=tokens)


ONE_SHOT: Final = OneShot(
    words=("gemini", "--output-format", "stream-json"),
    prompt_words=("--prompt=",),
    read=_read,
    variables=("GEMINI_*", "GOOGLE_*"),
    codes=code_map(
        retry={1: "failed", 54: "tool"} | {status % _BYTE: label for status, label in _PASSING_STATUS.items()},
        alert=_REPAIRS | {status % _BYTE: label for status, label in _LASTING_STATUS.items()},
    ),
)
"""Gemini CLI's one-shot mode.  Bad input (42) and too many turns (53) are nothing that a retry or a repair settles."""

COMPACTION: Final = NoCompaction(
    "Gemini CLI's one-shot mode does not wait for `/compress`, and sends it to the model as a prompt"
)
"""Why no session of it is compacted on request."""
