"""The names that are exported are those of docs/traces.md, and no others."""

import re
import subprocess
import sys
from collections.abc import Iterator

from lifebus_contract.facts.catalogue import every_fact
from lifebus_contract.facts.fact import FactType
from lifebus_supervisor.traces import attributes, names
from support.paths import DOCS

PAGE = (DOCS / "traces.md").read_text()
OWN = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str) and "." in value}
ROW = re.compile(r"^\| `([a-z_.]+)` \|", re.MULTILINE)
WRITTEN = {"cwd", "git_branch", "title", "client_stderr", "evidence", "closed_by", "forgotten_by", "steered_by"}
"""Facts that people, models or paths are in: they never leave."""

WORDS = """
agent_type cause client_signal client_step code_name continues_frame_id corrects emitter error failure_class
flow frame_id harness_version model operator_kind parent_frame_id platform reason request_id retry_class
source source_hook step trigger used_source waiting_id waiting_kind window_source
"""
"""Facts that are words of programs."""


def rows(heading: str) -> set[str]:
    """Return what the first column of a section's table has."""
    return set(ROW.findall(PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]))


def prefixed() -> Iterator[str]:
    yield names.FACT_PREFIX


def test_the_page_has_every_name() -> None:
    events = {value for name, value in vars(names).items() if name.endswith("_EVENT")}
    assert rows("Events of spans") == events
    assert rows("Attributes") == OWN - events - set(prefixed())
    assert names.FACT_PREFIX in PAGE


def test_links_and_providers_are_those_of_the_page() -> None:
    assert all(f"`{word}`" in PAGE for word in (*names.LINKS, *names.PROVIDERS.values()))


def test_no_fact_that_somebody_writes_is_exported() -> None:
    assert set() == attributes.EXPORTED_FACTS & WRITTEN
    texts = {FactType.TEXT, FactType.TEXT_OR_INTEGER}
    found = {fact.key for fact in every_fact() if fact.kind in texts and not fact.values}
    # Whoever adds a fact that is text decides here whether it may leave.
    assert attributes.EXPORTED_FACTS & found == set(WORDS.split())
    assert {fact.key for fact in every_fact()} >= attributes.EXPORTED_FACTS


def test_a_broker_loads_nothing_of_it() -> None:
    begun = "import sys, lifebus_supervisor.daemon.lifecycle"
    asked = (
        "print([one for one in sys.modules if one.split('.')[0] in {'opentelemetry', 'google'} or '.traces' in one])"
    )
    ran = subprocess.run([sys.executable, "-c", f"{begun}; {asked}"], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
