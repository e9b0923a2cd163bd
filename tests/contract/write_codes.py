"""Write the table of error codes into docs/wire-protocol.md: `python tests/contract/write_codes.py`."""

from pathlib import Path

from lifebus_contract.codes import GROUPS

DOCUMENT = Path(__file__).parents[2] / "docs" / "wire-protocol.md"
HEADING = "\n## Error codes\n"


def with_table(text: str) -> str:
    """Return the document with the present tables; the words before them stay.

    Raises:
        ValueError: the document has no section of error codes.
    """
    before, heading, rest = text.partition(HEADING)
    if not heading:
        raise ValueError("there is no section `Error codes`")
    section, more, after = rest.partition("\n## ")
    words = section.partition("### ")[0].rstrip("\n")
    return f"{before}{heading}{words}\n\n{tables()}\n{more}{after}"


def tables() -> str:
    """Return every group of the table as Markdown."""
    lines: list[str] = []
    for title, rows in GROUPS.items():
        lines += ["", f"### {title}", "", "| code | failure class | retry class | meaning |", "|---|---|---|---|"]
        for code, row in rows.items():
            classes = ", ".join(f"`{failure.value}`" for failure in row.failure_classes)
            lines.append(f"| `{code}` | {classes} | `{row.retry_class.value}` | {row.meaning} |")
    return "\n".join(lines).lstrip("\n")


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text()))
