"""The pages of the events say what the recordings of every harness yield, and no fact goes without a meaning."""

import re

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.own_hooks import OWN_HOOKS
from lifebus_adapters.shared.rules import FRAME_CLOSE
from lifebus_contract import LifecycleEvent
from lifebus_contract.facts.catalogue import COMMON, SAYS, every_fact, facts_of
from lifebus_contract.facts.fact import ANY_EVENT, Fact, FactType
from support.events.pages import FOLDER, files
from support.events.recorded import Recorded, play_everything
from support.paths import DOCS, REPOSITORY

TYPES: dict[FactType, set[type]] = {
    FactType.TEXT: {str},
    FactType.INTEGER: {int},
    FactType.BOOLEAN: {bool},
    FactType.TEXT_OR_INTEGER: {str, int},
}


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return play_everything()


def known(event: LifecycleEvent, key: str) -> list[Fact]:
    """Every entry of the catalogue for a fact of an event."""
    return [fact for fact in (*facts_of(event), *COMMON) if fact.key == key]


def unknown(recorded: Recorded) -> list[tuple[str, str]]:
    return sorted((event.value, key) for event, key in recorded.values if not known(event, key))


def unexplained(recorded: Recorded, facts: tuple[Fact, ...]) -> list[tuple[str, str]]:
    """The facts that no recording has and no test shows."""
    found: list[tuple[str, str]] = []
    for fact in facts:
        reported = [event for event in fact.events if recorded.reporters(event, fact.key)]
        # A fact of any event need not be recorded with each.
        missing = [] if fact in COMMON and reported else [event for event in fact.events if event not in reported]
        if missing and not (fact.reporter and shown(fact)):
            found += [(event.value, fact.key) for event in missing]
    return sorted(found)


def shown(fact: Fact) -> bool:
    """Whether the test that a fact names is there and speaks of it; a client's evidence may go without `client_`."""
    path = REPOSITORY / fact.shown_by
    names = {fact.key, fact.key.removeprefix("client_")}
    return path.is_file() and any(re.search(rf"\b{re.escape(name)}\b", path.read_text()) for name in names)


def test_no_recording_yields_a_fact_that_the_catalogue_does_not_know(recorded: Recorded) -> None:
    assert unknown(recorded) == []


def test_a_fact_that_no_recording_yields_says_who_tells_it_and_which_test_shows_it(recorded: Recorded) -> None:
    assert unexplained(recorded, every_fact()) == []


def test_recorded_values_are_of_the_type_and_among_the_values_that_the_catalogue_names(recorded: Recorded) -> None:
    wrong = [
        (event.value, key, value)
        for (event, key), reported in recorded.values.items()
        for value in {one for values in reported.values() for one in values}
        if not any(fits(fact, value) for fact in known(event, key))
    ]
    assert wrong == []


def fits(fact: Fact, value: object) -> bool:
    if value is None:
        return fact.nullable
    return type(value) in TYPES[fact.kind] and (not fact.values or value in fact.values)


def test_what_clients_are_asked_with_is_known_too(recorded: Recorded) -> None:
    for (event, reporter), metadata in recorded.metadata.items():
        bus = metadata["lifebus"]
        assert set(bus) <= {"telemetry", "degradations", "traceparent"}
        facts = bus["telemetry"].items()
        strange = [key for key, value in facts if not any(fits(one, value) for one in known(event, key))]
        # What the hook said that shows the event, which may be the hook of another one.
        said = {key: value for key, value in metadata.items() if key != "lifebus"}
        strange += [
            key for key, value in said.items() if not any(one.key == key and fits(one, value) for one in every_fact())
        ]
        assert strange == [], (event, reporter)
        # Clients get the path, whatever is recorded of it.
        assert "cwd" not in said or str(said["cwd"]).startswith("/")
    # Who reports an event with receipts can be asked about it.
    assert {event for event, _ in recorded.examples} == {event for event, _ in recorded.metadata}


def test_every_fact_of_a_hook_is_known() -> None:
    tables = [OWN_HOOKS, *(adapter.hooks for adapter in ADAPTERS.values())]
    missing = {
        (event.value, field.key)
        for table in tables
        for rule in table.rules.values()
        for event in rule.events
        # Supervision settles the end that a stop hook announces: what the hook said stands with `frame.ending`.
        if not (event is LifecycleEvent.FRAME_ENDED and rule.events == FRAME_CLOSE)
        for field in rule.facts
        if not known(event, field.key)
    }
    assert missing == set()


def test_a_fact_has_one_meaning_and_type_on_each_event_unless_another_reporter_says_it() -> None:
    for event in ANY_EVENT:
        rows = [fact for fact in (*facts_of(event), *COMMON) if not fact.reporter]
        assert len({fact.key for fact in rows}) == len(rows)
        for fact in facts_of(event):
            assert {other.kind for other in known(event, fact.key)} == {fact.kind}


def test_the_pages_are_those_that_are_generated(recorded: Recorded) -> None:
    wanted = files(recorded)
    stale = [path.name for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    assert stale == [], "PYTHONPATH=tests python tests/contract/write_events.py"
    assert sorted(FOLDER.glob("*")) == sorted(path for path in wanted if path.parent == FOLDER)


def test_the_contract_says_the_same_of_each_event() -> None:
    rows = {
        name: row.split(" | ")[1].removesuffix(" |")
        for row in (DOCS / "contract.md").read_text().splitlines()
        for name in re.findall(r"`([a-z]+\.[a-z_]+)`", row.split(" | ")[0])
        if row.startswith("| `")
    }
    first = {event: SAYS[event].partition(";")[0] for event in (LifecycleEvent.SESSION_STARTING, *ANY_EVENT)}
    alike = [event for event, text in first.items() if rows[event.value].startswith(text)]
    # The contract has one row for the two events of an end.
    assert {event.value for event in ANY_EVENT if event not in alike} == {
        "frame.ended", "session.ending", "session.ended",
    }  # fmt: skip


def test_the_comparison_bites(recorded: Recorded) -> None:
    taught = Recorded()
    taught.values[LifecycleEvent.FRAME_OPENED, "made_up"]["claude"].add(1)
    assert unknown(taught) == [("frame.opened", "made_up")]
    (used,) = known(LifecycleEvent.CONTEXT_PRESSURE_OBSERVED, "context_used_pct")
    assert unexplained(taught, (used,)) == [("context.pressure_observed", "context_used_pct")]
    assert not fits(used, "50")
