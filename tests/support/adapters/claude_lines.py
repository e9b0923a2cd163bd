"""Lines of a made-up Claude Code transcript, and the facts that its reader finds in them."""

import json
from typing import Any

from lifebus_adapters.shared.telemetry import Fact, TurnEnded, Usage
from support.adapters.telemetry_facts import HOME, facts_of

SESSION = "01900000-0000-4000-8000-000000000001"
OTHER = "01900000-0000-4000-8000-000000000002"
PATH = f"{HOME}/.claude/projects/-home-dev-project/{SESSION}.jsonl"
USED = "transcript:usage.input+cache_creation+cache_read+output"
MODEL = "claude-opus-5-5"
TYPED = {"promptSource": "typed", "turnOrigin": "human"}


def line(kind: str, **fields: Any) -> bytes:
    """Return a line as Claude Code writes it: compact, with the common fields."""
    record = {"parentUuid": None, "isSidechain": False, "type": kind, "uuid": "u1", "sessionId": SESSION, **fields}
    return json.dumps(record, separators=(",", ":")).encode()


def answer(*, model: str | None = MODEL, usage: Any = None, **fields: Any) -> bytes:
    counted = {"input_tokens": 10, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 3_000}
    message: dict[str, Any] = {"model": model, "content": [], "usage": usage or {**counted, "output_tokens": 40_000}}
    return line("assistant", message=message, **fields)


def prompt(content: Any = "Hello", prompt_id: str | None = "p1", **fields: Any) -> bytes:
    return line("user", promptId=prompt_id, message={"role": "user", "content": content}, **fields)


def boundary(**metadata: Any) -> bytes:
    return line("system", subtype="compact_boundary", compactMetadata=metadata)


def read(*records: bytes, **environ: str) -> list[Fact]:
    return facts_of("claude", PATH, list(records), **environ)


def usages(*records: bytes, **environ: str) -> list[Usage]:
    return [fact for fact in read(*records, **environ) if isinstance(fact, Usage)]


def ends(*records: bytes) -> list[tuple[str | None, str]]:
    return [(fact.frame_id, fact.frame_end) for fact in read(*records) if isinstance(fact, TurnEnded)]
