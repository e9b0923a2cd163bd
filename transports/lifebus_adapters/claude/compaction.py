"""`claude --print --resume ID -- /compact`, as measured with 2.1.330: the boundary in its lines proves it.  Pure.

It ends with 0 also where it did not compact, and says why in a line of its status.  What the result says of usage and
money is that of the whole session, but for one field.
"""

from typing import Any, Final, cast

from lifebus_adapters.claude.one_shot import tokens_of_models
from lifebus_adapters.shared.compaction import SESSION, CompactionReport, SessionCompaction
from lifebus_adapters.shared.one_shot import OneShotReport, message, micros, name, part, records
from lifebus_contract.fields import MAX_INTEGER


def _read(stdout: bytes, _stderr: bytes) -> CompactionReport:
    session, reason = None, ""
    boundary: dict[str, Any] | None = None
    result: dict[str, Any] = {}
    for record in records(stdout):
        session = name(record.get("session_id")) or session
        match record.get("type"), record.get("subtype"):
            case "system", "compact_boundary":
                boundary = part(record, "compact_metadata")
            case "system", "status" if record.get("compact_result") == "failed":
                reason = message(record.get("compact_error")) or reason
            case "result", _:
                result = record
            case _:
                continue
    return CompactionReport(
        session_id=session,
        compacted=boundary is not None,
        message="" if boundary is not None else reason or _fault(result),
        tokens_before=_tokens(boundary, "pre_tokens"),
        tokens_after=_tokens(boundary, "post_tokens"),
        uses=_uses(part(result, "model_usage_since_last_result")),
    )


def _fault(result: dict[str, Any]) -> str:
    """Return what an end without a compaction says: a refusal, or an error; never what a model has said."""
    if not (result.get("is_error") or result.get("local_command")):
        return ""
    errors = result.get("errors")
    first = next(iter(cast("list[object]", errors)), None) if isinstance(errors, list) else None
    return message(result.get("result")) or message(first)


def _tokens(boundary: dict[str, Any] | None, key: str) -> int | None:
    value = None if boundary is None else boundary.get(key)
    is_one = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INTEGER
    return value if is_one and isinstance(value, int) else None


def _uses(models: dict[str, Any]) -> tuple[OneShotReport, ...]:
    found: list[OneShotReport] = []
    for model in models:
        usage = part(models, model)
        tokens = tokens_of_models({model: usage})
        found.append(OneShotReport(model=name(model), tokens=tokens, cost_micros=micros(usage.get("costUSD"))))
    return tuple(found)


COMPACTION: Final = SessionCompaction(
    words=("claude", "--print", "--output-format", "stream-json", "--verbose"),
    session_words=(f"--resume={SESSION}", "--"),
    request="/compact",
    read=_read,
    session_options={
        "--session-id": True,
        "--resume": True,
        "-r": True,
        "--continue": False,
        "-c": False,
        "--fork-session": False,
    },
)
"""Claude Code's compaction of a session that no process has."""
