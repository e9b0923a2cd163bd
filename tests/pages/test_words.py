"""Facts that the introductory pages name are facts that receipts have."""

import re

from lifebus_contract import LifecycleEvent
from lifebus_contract.facts.catalogue import COMMON, facts_of
from support.paths import DOCS


def test_the_facts_that_the_concepts_name_are_in_the_catalogue() -> None:
    (row,) = re.findall(r"^.*\| `telemetry_summary` \|(.*)\|$", (DOCS / "concepts.md").read_text(), re.MULTILINE)
    known = {fact.key for event in LifecycleEvent for fact in (*facts_of(event), *COMMON)}
    named = set(re.findall(r"`(\w+)`", row))
    assert named
    assert named <= known, named - known
