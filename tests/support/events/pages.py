"""The pages in docs/events, made of the catalogue of facts and of what the recordings yield."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec

from lifebus_contract import LifecycleEvent
from lifebus_contract.facts.catalogue import COMMON, SAYS, facts_of
from lifebus_contract.facts.fact import ANY_EVENT, Fact
from support.events.recorded import REPORTERS, Recorded
from support.paths import DOCS, REPOSITORY

FOLDER = DOCS / "events"
DATA = REPOSITORY / "clients" / "lifebus" / "cli" / "contract" / "recorded_events.json"
INDEX = Path(__file__).parent / "index.txt"
HEAD = ("| fact | type | meaning | reported by |", "|---|---|---|---|")


def files(recorded: Recorded) -> dict[Path, str]:
    """Return every generated file with its text."""
    pages = {FOLDER / f"{event.value}.md": page(event, recorded) for event in ANY_EVENT}
    return {DATA: data(recorded), FOLDER / "README.md": index(recorded), **pages}


def data(recorded: Recorded) -> str:
    """Return who reports each fact, and the examples, as `lifebus events` reads them."""
    events = {event.value: _data_of(event, recorded) for event in ANY_EVENT}
    return json.dumps(events, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _data_of(event: LifecycleEvent, recorded: Recorded) -> dict[str, object]:
    keys = [fact.key for fact in (*facts_of(event), *COMMON)]
    reported = {key: reporters for key in keys if (reporters := recorded.reporters(event, key))}
    examples = {one: recorded.examples[event, one] for one in REPORTERS if (event, one) in recorded.examples}
    metadata = {one: keys for one in REPORTERS if (keys := _metadata_keys(event, one, recorded))}
    return {"metadata": metadata, "reported_by": reported, "examples": msgspec.to_builtins(examples)}


def page(event: LifecycleEvent, recorded: Recorded) -> str:
    """Return the page of an event."""
    return "\n".join(_page(event, recorded)) + "\n"


def _page(event: LifecycleEvent, recorded: Recorded) -> Iterator[str]:
    reporters = [one for one in REPORTERS if (event, one) in recorded.examples]
    yield f"# {event.value}"
    yield f"\n{_sentence(SAYS[event])}"
    yield "\n## Facts\n"
    yield "`telemetry_summary` may have these, and the facts of [any receipt](README.md#any-receipt):\n"
    yield from HEAD
    yield from (_row(fact, recorded.reporters(event, fact.key)) for fact in facts_of(event))
    yield from _dispatch(event, recorded)
    yield "\n## Examples\n"
    if not reporters:
        yield "No recording has one. The catalogue, `broker/lifebus_contract/facts`, names tests that show them."
        return
    yield "Of each harness, the receipt that says most of those which its recordings become."
    yield "Ids and texts of the recordings were replaced by neutral ones of the same form."
    for one in reporters:
        body = json.dumps(msgspec.to_builtins(recorded.examples[event, one]), indent=2, ensure_ascii=False)
        yield f"\n### {one}\n\n```json\n{body}\n```"


def _dispatch(event: LifecycleEvent, recorded: Recorded) -> Iterator[str]:
    """Yield what callback clients find in the request's metadata."""
    asked = [one for one in REPORTERS if _metadata_keys(event, one, recorded)]
    if asked:
        yield "\n## In a dispatch\n"
        yield "A callback client gets all facts in `request.metadata.lifebus.telemetry`."
        yield "`request.metadata` itself has what the hook said that shows the event:\n"
        yield "| harness | keys of `request.metadata` |"
        yield "|---|---|"
        for one in asked:
            yield f"| {one} | {', '.join(f'`{key}`' for key in _metadata_keys(event, one, recorded))} |"


def _metadata_keys(event: LifecycleEvent, reporter: str, recorded: Recorded) -> list[str]:
    return sorted(recorded.metadata.get((event, reporter), {}))


def _row(fact: Fact, reporters: list[str]) -> str:
    kind = f"{fact.kind.value}, {fact.unit}" if fact.unit else fact.kind.value
    kind += " or null" if fact.nullable else ""
    values = f". One of {', '.join(f'`{value}`' for value in fact.values)}" if fact.values else ""
    reported = "; ".join(part for part in (", ".join(reporters), fact.reporter) if part)
    return f"| `{fact.key}` | {kind} | {fact.meaning}{values} | {reported} |"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def index(recorded: Recorded) -> str:
    """Return the index: the events, who tells them, the facts of any receipt, and what a dispatch has."""
    common = [*HEAD, *(_row(fact, _reporters_of_any(fact, recorded)) for fact in COMMON)]
    places = {"{events}": list(_events(recorded)), "{any}": common}
    lines: list[str] = []
    for line in INDEX.read_text().splitlines():
        lines += places.get(line, [line])
    return "\n".join(lines) + "\n"


def _events(recorded: Recorded) -> Iterator[str]:
    yield "| event | says | reported by |"
    yield "|---|---|---|"
    for event in ANY_EVENT:
        reporters = ", ".join(one for one in REPORTERS if (event, one) in recorded.examples) or "–"
        yield f"| [{event.value}]({event.value}.md) | {SAYS[event]} | {reporters} |"
    emitted = LifecycleEvent.RECEIPT_EMITTED
    yield f"| {emitted.value} | {SAYS[emitted]} | – |"


def _reporters_of_any(fact: Fact, recorded: Recorded) -> list[str]:
    reported = {one for event in ANY_EVENT for one in recorded.reporters(event, fact.key)}
    return [one for one in REPORTERS if one in reported]
