"""docs/library.md and docs/library-types.md are what the library says of itself."""

import re

import lifebus
import lifebus.blocking
from house.test_public_signatures import CALLED, HELD_BY_A_BUS
from support.library_page import PAGE, TYPES, library_page, types_page

ANEW = "write them anew: PYTHONPATH=tests python tests/support/library_page.py"
TEXT = PAGE.read_text() + TYPES.read_text()


def test_the_pages_are_what_signatures_and_docstrings_say() -> None:
    assert PAGE.read_text() == library_page(), ANEW
    assert TYPES.read_text() == types_page(), ANEW


def test_no_sentence_of_the_pages_is_cut_off() -> None:
    assert [line for line in TEXT.splitlines() if re.match(r"- `\w+`: ", line) and line[-1] not in ".:"] == []


def test_every_public_name_has_an_entry() -> None:
    headings = set(re.findall(r"(?m)^### (?:lifebus\.)?(?:`[\w.]+`: )?([\w.]+)$", TEXT))
    public = {*lifebus.__all__, *HELD_BY_A_BUS.values(), *(f"blocking.{name}" for name in lifebus.blocking.__all__)}
    assert public - headings == set()


def test_every_call_of_the_library_is_on_the_page() -> None:
    shown = set(re.findall(r"(?m)^#{3,4} (?:\S+\.)?(\w+)$", TEXT))
    assert {name for name in CALLED if name.rpartition(".")[2] not in shown} == set()


def test_what_has_limits_and_defaults_says_them() -> None:
    assert "| `max_in_flight` | `int` | `64` |" in TEXT
    assert "1 to 1,024" in TEXT
    assert "    timeout: float = 5.0,\n" in TEXT
    assert "- `BrokerBusy`: the queue is full." in TEXT
    assert "lifebus_transports" not in TEXT
    assert "<" not in re.sub(r"`[^`]*`|<!--.*-->|(?s:```.*?```)", "", TEXT)
