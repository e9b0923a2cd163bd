"""Flow files for tests, and a phase that waits for the test."""

from pathlib import Path

AT_ONCE = '[defaults]\npause = { first = "0s", longest = "0s" }\n'
"""Retries without a pause."""


def write(folder: Path, *phases: str, head: str = "", name: str = "f.toml") -> str:
    path = folder / name
    path.write_text(head + "".join(f"[[phases]]\n{phase}\n" for phase in phases))
    return str(path)


HELD = 'name = "held"\nshell = "echo $$ > up; read -r word < down; echo \\"$word\\" >> said"'
"""A phase that says its process id through `up`, and waits for a word."""


def process_of(project: Path) -> int:
    """Return the process id of the held phase, once it runs."""
    return int((project / "up").read_text())


def tell(project: Path, word: str = "go") -> None:
    (project / "down").write_text(f"{word}\n")
