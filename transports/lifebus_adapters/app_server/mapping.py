"""From the notifications about a thread to facts of lifecycles.  Pure.

Only what was observed becomes a fact: there is no word of a turn that is about to begin or to end.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Raw, Struct

from lifebus_adapters.app_server.context import decoded
from lifebus_adapters.app_server.errors import ErrorInfo, error_facts
from lifebus_adapters.app_server.facts import AppServerFact, ErrorSeen, ThreadClosed, ThreadOpened
from lifebus_adapters.app_server.messages import ABSENT
from lifebus_adapters.app_server.threads import Thread
from lifebus_adapters.shared.telemetry import Compacted, TurnEnded, TurnStarted, Usage
from lifebus_contract.fields import Count

SOURCE: Final = "app_server"
"""The source id of facts that an app-server reported."""

_ENDS: Final = frozenset({"completed", "interrupted", "failed"})


def facts_of(thread: Thread, method: str, turn: str | None, params: bytes) -> list[AppServerFact]:
    """Return the facts in a notification, and update the thread by it."""
    step = _STEPS.get(method)
    return [] if step is None else step(thread, turn, params)


def opened(thread: Thread, how: str, method: str) -> list[AppServerFact]:
    """Return the fact that a thread can take turns, unless that is known or the thread is the server's own."""
    if thread.live or thread.system:
        return []
    thread.live = True
    how = "forked" if how == "started" and thread.forked else how
    return [
        ThreadOpened(
            session=thread.id,
            how=how,  # type: ignore[arg-type]  # one of three
            method=method,
            model=thread.model,
            cwd=thread.cwd,
            git_branch=thread.git_branch,
            title=thread.title,
        )
    ]


def _started(thread: Thread, _turn: str | None, _params: bytes) -> list[AppServerFact]:
    return opened(thread, "started", "thread/started")


def _closed(thread: Thread, method: str) -> list[AppServerFact]:
    thread.live, thread.turn = False, None
    return [ThreadClosed(session=thread.id, evidence=f"{SOURCE}:{method}")]


def _turn_started(thread: Thread, turn: str | None, _params: bytes) -> list[AppServerFact]:
    thread.begin(turn)
    thread.live = True
    # A request to compact has no turn of its own: the next turn is taken for it.
    compacting, thread.compact_wanted = thread.compact_wanted, False
    return [] if turn is None else [TurnStarted(session=thread.id, frame_id=turn, compacting=compacting)]


class _Turn(Struct):
    status: str = ""
    error: Raw = ABSENT


class _TurnParams(Struct):
    turn: _Turn


def _turn_completed(thread: Thread, turn: str | None, params: bytes) -> list[AppServerFact]:
    parsed = decoded(params, _TurnParams)
    seen, thread.turn = thread.last_error, None
    if parsed is None or turn is None or parsed.turn.status not in _ENDS:
        return []
    end = parsed.turn.status
    info = (
        ErrorInfo.of(parsed.turn.error)
        if parsed.turn.error != ABSENT
        else (seen[0] if seen and end == "failed" else None)
    )
    details = {} if info is None else error_facts(info, will_retry=False)
    evidence = f"{SOURCE}:turn/completed.{end}"
    return [TurnEnded(session=thread.id, frame_id=turn, frame_end=end, evidence=evidence, details=details)]


class _Tokens(Struct, rename="camel"):
    total_tokens: Count
    input_tokens: Count | None = None
    output_tokens: Count | None = None


class _TokenUsage(Struct, rename="camel"):
    last: _Tokens
    model_context_window: Count | None = None


class _UsageParams(Struct, rename="camel"):
    token_usage: _TokenUsage


def _usage(thread: Thread, _turn: str | None, params: bytes) -> list[AppServerFact]:
    """Return the tokens of the last request; `total` adds up all of them and says nothing of the context."""
    parsed = decoded(params, _UsageParams)
    if parsed is None:
        return []
    last, window = parsed.token_usage.last, parsed.token_usage.model_context_window or None
    # After a compaction the server sends an estimate, which has a total and no parts.
    estimated = last.total_tokens > 0 and last.input_tokens == 0 and last.output_tokens == 0
    return [
        Usage(
            session=thread.id,
            used_tokens=last.total_tokens,
            used_source=f"{SOURCE}:last.totalTokens{':estimated' if estimated else ''}",
            window_tokens=window,
            window_source=f"{SOURCE}:modelContextWindow" if window else None,
            model=thread.model,
        )
    ]


class _Item(Struct):
    type: str = ""


class _ItemParams(Struct):
    item: _Item


def _item_completed(thread: Thread, turn: str | None, params: bytes) -> list[AppServerFact]:
    parsed = decoded(params, _ItemParams)
    if parsed is None or parsed.item.type != "contextCompaction":
        return []
    thread.compaction_items += 1
    return _compacted(thread, turn)


def _compaction_notice(thread: Thread, turn: str | None, _params: bytes) -> list[AppServerFact]:
    thread.compaction_notices += 1
    return _compacted(thread, turn)


def _compacted(thread: Thread, turn: str | None) -> list[AppServerFact]:
    """Return a compaction once: an item and a notice of the same turn, each counted for itself, report the same one."""
    # The server may send an item, a notice, or both.
    if max(thread.compaction_items, thread.compaction_notices) == thread.compactions:
        return []
    thread.compactions += 1
    return [Compacted(session=thread.id, key=f"turn:{turn}:{thread.compactions}")]


class _ErrorParams(Struct, rename="camel"):
    error: Raw
    will_retry: bool = False


def _error(thread: Thread, turn: str | None, params: bytes) -> list[AppServerFact]:
    """Return an error that the server tries to get over, once for each change; the end of the turn reports others."""
    parsed = decoded(params, _ErrorParams)
    if parsed is None:
        return []
    seen = (ErrorInfo.of(parsed.error), parsed.will_retry)
    known, thread.last_error = thread.last_error, seen
    # The end of the turn reports a final error; reported here, too, it would count twice.
    if seen == known or not (parsed.will_retry or turn is None):
        return []
    thread.errors += 1
    details = error_facts(seen[0], will_retry=parsed.will_retry)
    return [ErrorSeen(session=thread.id, frame_id=turn, key=f"{turn}:{thread.errors}", details=details)]


_STEPS: Final[dict[str, Callable[[Thread, str | None, bytes], list[AppServerFact]]]] = {
    "thread/started": _started,
    "thread/closed": lambda thread, _turn, _params: _closed(thread, "thread/closed"),
    "thread/deleted": lambda thread, _turn, _params: _closed(thread, "thread/deleted"),
    "thread/tokenUsage/updated": _usage,
    "thread/compacted": _compaction_notice,
    "turn/started": _turn_started,
    "turn/completed": _turn_completed,
    "item/completed": _item_completed,
    "error": _error,
}
