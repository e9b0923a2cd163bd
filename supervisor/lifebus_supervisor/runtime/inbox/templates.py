"""Templates of what people are sent: what they may name.  Pure."""

from string import Template
from typing import Final

TITLE: Final = "$occasion: $title"
"""The usual title."""

FIELDS: Final = (
    "actions",
    "answer",
    "client",
    "command",
    "delivery",
    "kind",
    "link",
    "occasion",
    "question",
    "reason",
    "run",
    "step",
    "suggestions",
    "title",
)
"""What a template may name."""


def unknown_fields(template: str) -> list[str]:
    """Return the names in a template that mean nothing.

    Raises:
        ValueError: it is no template: a `$` stands alone.
    """
    found = Template(template)
    if not found.is_valid():
        raise ValueError("a `$` stands before a name; `$$` is one of them as it is")
    return sorted(set(found.get_identifiers()) - set(FIELDS))
