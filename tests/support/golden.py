"""The golden documents: one full and one minimal example of every kind, and a report."""

import json
from typing import Any

from lifebus_contract import KINDS
from support.paths import TESTS

FOLDER = TESTS / "contract" / "golden"
FORMS = ("full", "minimal")
EXAMPLES = [*((kind, form) for kind in KINDS for form in FORMS), ("emission", "report")]


def golden(kind: str, form: str = "full", **changes: Any) -> dict[str, Any]:
    """Return a fresh copy of an example, with some of its top-level keys replaced."""
    document: dict[str, Any] = json.loads((FOLDER / f"{kind}.{form}.json").read_text())
    return document | changes


def without(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return the document without some of its top-level keys."""
    return {key: value for key, value in document.items() if key not in keys}
