"""`lifebus contract events EVENT` says what the page of the event says, without a broker."""

import json
import re
from typing import Any

import pytest

from lifebus_contract import Receipt, decode_json
from support.command_line import Shell
from support.paths import DOCS

PAGES = sorted(path for path in (DOCS / "events").glob("*.md") if path.stem != "README")


def shown(alone: Shell, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = alone.call("contract", "events", *arguments, "--json").json
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_an_event_is_shown_as_its_page_has_it(alone: Shell, page: Any) -> None:
    text = page.read_text()
    facts = re.findall(r"^\| `([a-z_]+)` \| ([^|]+) \|", text, re.MULTILINE)
    examples = dict(re.findall(r"^### ([^\n]+)\n\n```json\n(.+?)\n```", text, re.MULTILINE | re.DOTALL))
    ran, known = alone.call("contract", "events", page.stem), shown(alone, page.stem)
    assert [one["key"] for one in known["facts"]] == [key for key, _ in facts]
    assert {name: json.loads(body) for name, body in examples.items()} == known["examples"]
    keys = dict(re.findall(r"^\| ([a-z -]+) \| (`cwd`.*|`lifebus`.*|`[a-z_]+`, .*) \|$", text, re.MULTILINE))
    assert {one: ", ".join(f"`{key}`" for key in keys) for one, keys in known["metadata"].items()} == keys
    assert ran.code == 0
    for key, kind in facts:
        assert f"  {key}  {kind.strip()}\n" in ran.out
    for name, body in examples.items():
        assert f"A receipt of {name}\n{body}\n" in ran.out


def test_examples_are_receipts(alone: Shell) -> None:
    for page in PAGES:
        for receipt in shown(alone, page.stem)["examples"].values():
            assert decode_json(json.dumps(receipt), Receipt).event.value == page.stem


def test_one_harness_or_none_can_be_chosen(alone: Shell) -> None:
    assert list(shown(alone, "frame.ended", "--adapter", "claude")["examples"]) == ["claude"]
    assert shown(alone, "frame.ended", "--facts-only")["examples"] == {}
    assert alone.call("contract", "events", "frame.ended", "--adapter", "claud").code == 2
    assert alone.call("contract", "events", "capability.degraded", "--adapter", "claude").code == 2


def test_a_slip_of_the_finger_is_answered_with_the_event_that_is_meant(alone: Shell) -> None:
    ran = alone.call("contract", "events", "frame.endet")
    assert (ran.code, "did you mean frame.ended?" in ran.err) == (2, True)


def test_the_notification_has_no_receipts(alone: Shell) -> None:
    assert alone.call("contract", "events", "receipt.emitted").out.count("\n") == 1


def test_links_of_the_pages_are_words_in_a_terminal(alone: Shell) -> None:
    out = " ".join(alone.call("contract", "events", "supervisor.tick", "--facts-only").out.split())
    assert "an error code (docs/wire-protocol.md)" in out
    assert "does not any more (docs/waiting.md)" in out
