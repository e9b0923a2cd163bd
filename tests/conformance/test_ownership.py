"""Conformance: static checks that the core does not own what belongs to clients."""

import ast
import re
from pathlib import Path

import pytest

from lifebus_contract import KINDS
from support.paths import REPOSITORY

CORE = [
    path
    for package in ("lifebus_contract", "lifebus_broker")
    for path in sorted((REPOSITORY / "broker" / package).rglob("*"))
    if path.suffix in {".py", ".json"}
]
CLIENT_WORDS = "ccd|rlm|leases?|polic(?:y|ies)|continuity|trajector(?:y|ies)|recursive.inference"
OWNED = re.compile(rf"(?<![a-z])(?:{CLIENT_WORDS})(?![a-z])", re.IGNORECASE)
OPAQUE = ("body", "body_ref", "format", "metadata")
SPECIFIED = "broker/lifebus_broker/snapshots/"
"""Where a policy is that of a compaction, as docs/ledger.md, "Compactions" calls it."""


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def owned_words(path: Path) -> set[str]:
    found = {word.lower() for word in OWNED.findall(path.read_text(encoding="utf-8"))}
    return found - ({"policy", "policies"} if name_of(path).startswith(SPECIFIED) else set())


def test_no_client_owned_word_stands_in_contract_or_broker() -> None:
    assert {name_of(path): words for path in CORE if (words := owned_words(path))} == {}


@pytest.mark.parametrize("text", ["class CcdState:", "import ccd", "renewal_lease_id", "# a policy", "RLM", "leases"])
def test_the_check_would_find_one(text: str) -> None:
    assert OWNED.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text))


def test_the_core_imports_no_client_and_no_adapter(subtests: pytest.Subtests) -> None:
    for path in (path for path in CORE if path.suffix == ".py"):
        with subtests.test(module=name_of(path)):
            imported = {
                name.split(".")[0]
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                for name in (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else []
                )
            }
            assert imported.isdisjoint({"lifebus", "lifebus_adapters", "lifebus_transports", "lifebus_supervisor"})


NOTES = {"gone", "item", "line", "note", "record"}
"""What the core calls a record of its own journal, also in an export, whose body is lifebus's and no client's."""


def test_only_rendering_and_checking_ever_touch_a_body() -> None:
    readers = {
        path.name
        for path in CORE
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in {"body", "body_ref"} and isinstance(node.ctx, ast.Load)
        if not (isinstance(node.value, ast.Name) and node.value.id in NOTES)
    }
    assert readers == {"envelope.py", "payload_text.py", "payload_validation.py"}


def test_receipts_have_no_room_for_a_body() -> None:
    assert set(OPAQUE).isdisjoint(KINDS["receipt"].__struct_fields__)
