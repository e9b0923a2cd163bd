"""docs/glossary.md: few terms, in order, each once; and the documents use them, not the words that they replaced."""

import re

from support.paths import DOCS
from support.sources import DOCUMENTS, offenders

MOST_TERMS = 40
REPLACED = re.compile(r"\b(?:doors?|keepers?|savers?|passage|witness(?:es)?|farewell|told|heard)\b", re.IGNORECASE)
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)


def replaced_words(text: str) -> list[str]:
    """Return the words of a document that the glossary has replaced, outside of code."""
    return REPLACED.findall(CODE.sub("", text))


def test_the_glossary_has_at_most_forty_terms_in_order_and_none_twice() -> None:
    terms = re.findall(r"^\| ([a-z][a-z -]*) \| .+ \| .+ \|$", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert terms.pop(0) == "term"
    assert 0 < len(terms) <= MOST_TERMS
    assert terms == sorted(set(terms))


def test_no_document_uses_a_word_that_the_glossary_replaced() -> None:
    assert offenders(DOCUMENTS, replaced_words) == {}


def test_the_guard_bites() -> None:
    assert replaced_words("The keeper is told at the door; `doors` is code.") == ["keeper", "told", "door"]
