"""docs/glossary.md: few terms, in order, each once."""

import re

from support.paths import DOCS

MOST_TERMS = 40


def test_the_glossary_has_at_most_forty_terms_in_order_and_none_twice() -> None:
    terms = re.findall(r"^\| ([a-z][a-z -]*) \| .+ \| .+ \|$", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert terms.pop(0) == "term"
    assert 0 < len(terms) <= MOST_TERMS
    assert terms == sorted(set(terms))
