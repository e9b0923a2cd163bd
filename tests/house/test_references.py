"""Every reference to a page of `docs/` opens: the page is there, and so is the heading or the rule that is cited.

A citation is `docs/contract.md 6.5` (a heading that begins with this label), `docs/ledger.md, "Retention"` (a heading
of this text, without its label) or a page alone.
"""

import re
from functools import cache
from pathlib import Path

from support.paths import REPOSITORY
from support.sources import DOCUMENTS, committed, name_of, offenders, text_of

DATA = REPOSITORY / "tests" / "data"
LABEL = r"\d+(?:\.\d+)*|(?:[A-Z]+-)?[A-Z]\d+"
CITATION = re.compile(
    rf"docs/(?P<page>[a-z/-]+)\.md(?:(?:,\s+\\?\"(?P<text>[^\"\\]+)\\?\")|(?:\s+(?P<label>{LABEL})\b(?!\w)))?"
)
LINK = re.compile(r"\]\((?!https?:)(?P<page>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
HEADING = re.compile(r"^#{1,4} (.+)$", re.MULTILINE)
ELSEWHERE = re.compile(
    r"\b(?:design \d+(?:\.\d+)?|reliability,? [a-f]\d|RULE-C\d|RESUME-I\d)\b"
    r"|\b(?:session-lifecycle|lifecycle-contract|harness-runtime-events|renewal-boundary|loa-runtime|lifeloop-reference)\b"
    r"|\b(?:contract-decisions|(?:house|style)\.md|ORC-[A-Z]+)\b"
)
"""The names of documents that the repository does not have, as they were cited once."""


@cache
def headings(page: str) -> tuple[str, ...]:
    path = REPOSITORY / page
    return tuple(HEADING.findall(path.read_text())) if path.is_file() else ()


def anchor_of(heading: str) -> str:
    """Return the anchor that a heading gets where Markdown is shown: lower case, no punctuation, hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def unresolved(text: str) -> list[str]:
    """Return the citations in a text that lead nowhere."""
    return [found[0] for found in CITATION.finditer(text) if not resolves(found)]


def resolves(found: re.Match[str]) -> bool:
    page = f"docs/{found['page']}.md"
    if not (REPOSITORY / page).is_file():
        return False
    if found["label"]:
        return any(heading.split(" ")[0] == found["label"] for heading in headings(page))
    if found["text"]:
        wanted = " ".join(found["text"].split())
        return any(re.sub(rf"^(?:{LABEL}) ", "", heading) == wanted for heading in headings(page))
    return True


def dead_links(document: Path) -> list[str]:
    """Return the links of a document to files or headings that are not there."""
    found: list[str] = []
    for link in LINK.finditer(text_of(document)):
        target = (document.parent / link["page"]).resolve() if link["page"] else document
        anchors = {anchor_of(heading) for heading in headings(name_of(target))} if link["anchor"] else {None}
        if not target.exists() or link["anchor"] not in anchors:
            found.append(link[0])
    return found


def test_every_citation_of_a_page_leads_to_a_heading() -> None:
    elsewhere = [path for path in committed() if path != Path(__file__)]
    assert offenders(elsewhere, unresolved) == {}


def test_nothing_cites_a_document_that_is_not_here() -> None:
    elsewhere = [path for path in committed() if path != Path(__file__) and DATA not in path.parents]
    assert offenders(elsewhere, ELSEWHERE.findall) == {}


def test_every_link_leads_to_a_file_and_its_heading() -> None:
    found = {name_of(document): dead_links(document) for document in DOCUMENTS}
    assert {name: links for name, links in found.items() if links} == {}


def test_the_guard_bites() -> None:
    good = 'docs/contract.md 6.5. docs/ledger.md D3; docs/ledger.md SL-G1, docs/ledger.md, "Retention", docs/stdio.md.'
    assert unresolved(good) == []
    for bad in ("docs/contract.md 99.1", "docs/ledger.md D77", 'docs/ledger.md, "No such heading"', "docs/no-page.md"):
        assert unresolved(bad) == [bad]
    assert ELSEWHERE.findall("design " + "4.5, session-" + "lifecycle, 3, RULE-" + "C1") != []
    assert anchor_of("6.6 Gaps in the harness's numbers") == "66-gaps-in-the-harnesss-numbers"
