"""`claude -p --output-format stream-json`, as measured with 2.1.330: one object a line, the last is the result.  Pure.

One answer of the model comes as several lines, each with its usage: they count once, by the answer's id.  Input tokens
leave out those from and for the cache.  A run that was killed has no result, and its answers so far count.

Of a session that goes on, `usage` and `model_usage_since_last_result` are those of this run alone; `modelUsage` and
`total_cost_usd` are sums of the whole session.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

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

_SYNTHETIC: Final = "<synthetic>"
"""The model of answers that Claude Code made up."""


def _read(stdout: bytes, _stderr: bytes) -> OneShotReport:
    session = model = None
    result: dict[str, Any] = {}
    usages: dict[str, dict[str, Any]] = {}
    for record in records(stdout):
        session = name(record.get("session_id")) or session
        answer = part(record, "message")
        if record.get("type") == "result":
            result = record
        elif record.get("type") == "assistant" and answer.get("model") != _SYNTHETIC:
            model = name(answer.get("model")) or model
            usages[str(answer.get("id"))] = part(answer, "usage")  # the newest goes before
    tokens = _sum([part(result, "usage")] if result else usages.values())
    return OneShotReport(
        session_id=session,
        failed=bool(result.get("is_error")) if result else None,
        message=message(result.get("result")) if result.get("is_error") else "",
        model=model,
        calls=len(usages),
        tokens=tokens,
        cost_micros=_cost(result),
    )


def _cost(result: Mapping[str, Any]) -> int | None:
    """Return what this run alone has cost, None where that is not said."""
    if "model_usage_since_last_result" in result:
        return _cost_of_models(part(result, "model_usage_since_last_result"))
    # Another version: its sums are those of this run where they have no tokens of another one.
    own, whole = part(result, "usage"), part(result, "modelUsage")
    is_own = _sum([own]) == tokens_of_models(whole)
    return micros(result.get("total_cost_usd")) if is_own else None


def _cost_of_models(usages: Mapping[str, Any]) -> int | None:
    costs = [micros(part(usages, model).get("costUSD")) for model in usages]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def tokens_of_models(usages: Mapping[str, Any]) -> TokenUse:
    """Return the tokens of all models, each with its own counts as a result has them; input includes the cache."""
    names = {
        "inputTokens": "input_tokens",
        "outputTokens": "output_tokens",
        "cacheReadInputTokens": "cache_read_input_tokens",
        "cacheCreationInputTokens": "cache_creation_input_tokens",
    }
    return _sum({names[key]: value for key, value in part(usages, model).items() if key in names} for model in usages)


def _sum(usages: Iterable[Mapping[str, Any]]) -> TokenUse:
    sent = read = written = answered = 0
    for usage in usages:
        read += count(usage.get("cache_read_input_tokens"))
        written += count(usage.get("cache_creation_input_tokens"))
        sent += count(usage.get("input_tokens"))
        answered += count(usage.get("output_tokens"))
    return TokenUse(
        input_tokens=sent + read + written, output_tokens=answered, cache_read_tokens=read, cache_write_tokens=written
    )


ONE_SHOT: Final = OneShot(
    words=("claude", "--print", "--output-format", "stream-json", "--verbose"),
    prompt_words=("--",),  # some of its options take all words that follow
    read=_read,
    variables=("ANTHROPIC_*", "CLAUDE_*", "AWS_*", "GOOGLE_*", "VERTEX_*"),
    codes=code_map(retry={1: "failed"}, alert={}),
)
"""Claude Code's one-shot mode."""
