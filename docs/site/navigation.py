"""The navigation of the site, read from the pages: what `docs/index.md` and each folder's `README.md` list.  Pure.

`docs/index.md` has a heading for each part and a list of links below it; a folder's `README.md` stands for every other
page of its folder.  Tests use the same functions, without Sphinx.
"""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath

START = "docs/index"
FOLDER_PAGE = "README.md"
_PART = re.compile(r"^## (.+)$", re.MULTILINE)
_LISTED = re.compile(r"^ *- \[[^\]]+\]\(([^)#:]+\.md)\)", re.MULTILINE)


def parts_of(index: str) -> dict[str, list[str]]:
    """Return the pages of each part, as paths within the repository."""
    _, *parts = _PART.split(index)
    return {name: listed_in(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def listed_in(text: str) -> list[str]:
    """Return the pages at the beginning of list items, as paths within the repository."""
    return [normpath(f"docs/{target}") for target in _LISTED.findall(text)]


def folder_pages(page: str, repository: Path) -> list[str]:
    """Return what stands beside the `README.md` of a folder, in order; nothing for any other page."""
    path = PurePosixPath(page)
    if path.name != FOLDER_PAGE or path.parent in {PurePosixPath("."), PurePosixPath("docs")}:
        return []
    beside = sorted((repository / path.parent).glob("*.md"))
    return [one.relative_to(repository).as_posix() for one in beside if one.name != FOLDER_PAGE]


def navigated(index: str, repository: Path) -> set[str]:
    """Return every page that the navigation leads to."""
    listed = {page for pages in parts_of(index).values() for page in pages}
    return listed | {beside for page in listed for beside in folder_pages(page, repository)}


def in_navigation(page: str, text: str, repository: Path) -> str:
    """Return the hidden tables of contents to add to a page; Sphinx calls pages by their path without `.md`."""
    if page == START:
        return "".join(_table(pages, name) for name, pages in parts_of(text).items())
    beside = folder_pages(f"{page}.md", repository)
    return (_table(beside, "") if beside else "") + unlisted_schemas(page, text, repository)


def unlisted_schemas(page: str, text: str, repository: Path) -> str:
    """Return links to the JSON files beside a folder's page that it does not name: the repository shows them itself."""
    path = PurePosixPath(f"{page}.md")
    if path.name != FOLDER_PAGE:
        return ""
    names = [file.name for file in sorted((repository / path.parent).glob("*.json"))]
    return "".join(f"\n- [{name}]({name})" for name in names if f"({name})" not in text)


def _table(pages: list[str], caption: str) -> str:
    option = f":caption: {caption}\n" if caption else ""
    entries = "\n".join(f"/{page.removesuffix('.md')}" for page in pages)
    return f"\n\n```{{toctree}}\n:hidden:\n{option}\n{entries}\n```\n"
