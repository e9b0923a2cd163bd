"""`lifebus contract events`: what each event says, every fact of its receipts, and an example of each harness."""

import json as plain
import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any, Final

from msgspec import Struct

from lifebus.cli.arguments import parse_choice
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.first_screen import WIDEST_LINE
from lifebus.cli.terminal import paint, put, put_json, put_table
from lifebus_contract import LifecycleEvent
from lifebus_contract.facts.catalogue import COMMON, SAYS, facts_of
from lifebus_contract.facts.fact import ANY_EVENT, Fact
from lifebus_contract.vocabulary import FRAME_EVENTS

_METADATA: Final = "Keys of request.metadata in a dispatch; all facts are in its lifebus.telemetry"
_LINK: Final = re.compile(r"\[([^\]]+)\]\((?:\.\./)?([^)#]+)[^)]*\)")


class KnownFact(Struct, frozen=True, kw_only=True):
    """A fact as `--json` shows it; `reported_by` are harnesses that recorded it, `reporter` who else says it."""

    key: str
    kind: str
    unit: str
    nullable: bool
    values: tuple[str, ...]
    meaning: str
    reported_by: tuple[str, ...]
    reporter: str


class KnownEvent(Struct, frozen=True, kw_only=True):
    """An event as `--json` shows it; `examples` is a receipt of each harness that tells it.

    `metadata` has, by harness, the keys of `request.metadata` with which callback clients are asked.
    """

    event: str
    meaning: str
    needs_frame: bool
    can_be_emitted: bool
    facts: tuple[KnownFact, ...]
    common: tuple[KnownFact, ...]
    metadata: dict[str, tuple[str, ...]]
    examples: dict[str, dict[str, Any]]


def events(
    event: str | None = None, /, *, adapter: str | None = None, facts_only: bool = False, json: bool = False
) -> ExitCode:
    """List the 14 lifecycle events; show one: every fact of its receipts, with an example of each harness.

    Args:
        event: Show this one, e.g. frame.ended.
        adapter: Show the example of this one alone, e.g. claude, or `codex app-server`.
        facts_only: Show no examples.
        json: Answer in JSON.
    """
    if event is None:
        return _list(json=json)
    name = parse_choice("EVENT", event, [one.value for one in LifecycleEvent])
    known = known_event(LifecycleEvent(name))
    examples = {} if facts_only else _chosen(known, adapter)
    if json:
        put_json({**_plain(known), "examples": examples})
    else:
        for line in _lines(known, examples):
            put(line)
    return ExitCode.OK


def known_event(event: LifecycleEvent) -> KnownEvent:
    """Return what is known of an event: its facts from the catalogue, and what the recordings have."""
    recorded = _recorded().get(event.value, {"reported_by": {}, "metadata": {}, "examples": {}})
    reported: dict[str, Sequence[str]] = recorded["reported_by"]
    has_receipts = event in ANY_EVENT
    return KnownEvent(
        event=event.value,
        meaning=SAYS[event],
        needs_frame=event in FRAME_EVENTS,
        can_be_emitted=has_receipts,
        facts=tuple(_known(fact, reported) for fact in facts_of(event)),
        common=tuple(_known(fact, reported) for fact in COMMON) if has_receipts else (),
        metadata=recorded["metadata"],
        examples=recorded["examples"],
    )


def _known(fact: Fact, reported: dict[str, Sequence[str]]) -> KnownFact:
    return KnownFact(
        key=fact.key,
        kind=fact.kind.value,
        unit=fact.unit,
        nullable=fact.nullable,
        values=fact.values,
        meaning=fact.meaning,
        reported_by=tuple(reported.get(fact.key, ())),
        reporter=fact.reporter,
    )


def _recorded() -> dict[str, Any]:
    """Return what the recordings of the harnesses have, as tests/contract/write_events.py writes it."""
    found: dict[str, Any] = plain.loads((files("lifebus.cli.contract") / "recorded_events.json").read_text("utf-8"))
    return found


def _list(*, json: bool) -> ExitCode:
    found = [known_event(event) for event in SAYS]
    if json:
        shown = ("event", "meaning", "needs_frame", "can_be_emitted")
        put_json([{name: getattr(one, name) for name in shown} for one in found])
        return ExitCode.OK
    rows = [(one.event, "needed" if one.needs_frame else "", one.meaning) for one in found]
    put_table(("event", "frame", "meaning"), rows)
    return ExitCode.OK


def _chosen(known: KnownEvent, adapter: str | None) -> dict[str, dict[str, Any]]:
    if adapter is None:
        return known.examples
    if not known.examples:
        raise UsageError(f"--adapter: no recording of any harness has {known.event}")
    name = parse_choice("--adapter", adapter, list(known.examples))
    return {name: known.examples[name]}


def _plain(known: KnownEvent) -> dict[str, Any]:
    import msgspec  # noqa: PLC0415

    found: dict[str, Any] = msgspec.to_builtins(known)
    return found


def _lines(known: KnownEvent, examples: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the page of an event as a terminal shows it."""
    first, *others = _wrapped(f"{known.event}: {known.meaning}", "", after="  ")
    yield first.replace(known.event, paint(known.event, "bold"), 1)
    yield from others
    if not known.can_be_emitted:
        return
    yield from _facts("Facts", known.facts)
    yield from _facts("Facts that any receipt may have", known.common)
    if known.metadata:
        yield ""
        yield from (paint(line, "bold") for line in _wrapped(_METADATA, ""))
    for harness, keys in known.metadata.items():
        yield from _wrapped(f"{harness}: {', '.join(keys)}", "  ")
    for harness, receipt in examples.items():
        yield ""
        yield paint(f"A receipt of {harness}", "bold")
        yield from plain.dumps(receipt, indent=2, ensure_ascii=False).splitlines()


def _link_text(found: re.Match[str]) -> str:
    """Return a link in words: the page alone where the link is called by it, else both."""
    words, page = found.groups()
    return f"docs/{page}" if words == page else f"{words} (docs/{page})"


def _wrapped(text: str, indent: str, *, after: str | None = None) -> list[str]:
    """Return lines that fit the terminal, and are not too long to be read; those `after` the first are set off."""
    width = min(shutil.get_terminal_size((WIDEST_LINE, 0)).columns, WIDEST_LINE)
    room = max(width, 2 * len(indent) + 1)
    return textwrap.wrap(text, room, initial_indent=indent, subsequent_indent=after or indent)


def _facts(title: str, facts: Sequence[KnownFact]) -> Iterator[str]:
    yield ""
    yield paint(title, "bold")
    for fact in facts:
        unit = f", {fact.unit}" if fact.unit else ""
        null = " or null" if fact.nullable else ""
        yield f"  {paint(fact.key, 'bold')}  {paint(f'{fact.kind}{unit}{null}', 'dim')}"
        values = f". One of {', '.join(fact.values)}" if fact.values else ""
        # Pages link to other pages; a terminal has their names.
        meaning = _LINK.sub(_link_text, fact.meaning)
        yield from _wrapped(f"{meaning}{values}", "    ")
        reported = "; ".join(part for part in (", ".join(fact.reported_by), fact.reporter) if part)
        if reported:
            yield from _wrapped(f"reported by {reported}", "    ")
