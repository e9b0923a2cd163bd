"""The site's navigation leads to every page, in five parts; what Sphinx is given for it is what the lists say."""

import re
import tomllib

import pytest

from docs.site.navigation import START, in_navigation, listed_in, navigated, parts_of
from support.paths import DOCS, REPOSITORY
from support.sources import DOCUMENTS, name_of

INDEX = (DOCS / "index.md").read_text()


def test_the_documentation_has_five_parts() -> None:
    assert list(parts_of(INDEX)) == ["Start", "Concepts", "Recipes", "Reference", "Internals"]
    assert all(parts_of(INDEX).values())


def test_every_page_is_in_the_navigation_and_once() -> None:
    pages = {name_of(path) for path in DOCUMENTS}
    assert {f"{START}.md", *navigated(INDEX, REPOSITORY)} == pages
    listed = [page for part in parts_of(INDEX).values() for page in part]
    assert len(listed) == len(set(listed))


def test_what_a_list_does_not_begin_with_is_no_entry() -> None:
    text = "- [A](hooks.md): [B](b.md)\n- [C](../C.md#part)\n- [D](https://d.md)\n  - [E](recipes/README.md)\n[F](f.md)"
    assert listed_in(text) == ["docs/hooks.md", "docs/recipes/README.md"]


@pytest.mark.parametrize(("page", "captions"), [("docs/index", 5), ("docs/recipes/README", 0), ("docs/start", 0)])
def test_the_lists_are_what_sphinx_is_given(page: str, captions: int) -> None:
    added = in_navigation(page, (REPOSITORY / f"{page}.md").read_text(), REPOSITORY)
    assert added.count(":caption:") == captions
    entries = {line[1:] for line in added.splitlines() if line.startswith("/")}
    if page == "docs/index":
        assert entries == {one.removesuffix(".md") for part in parts_of(INDEX).values() for one in part}
    elif page == "docs/recipes/README":
        beside = {name_of(path).removesuffix(".md") for path in (DOCS / "recipes").glob("*.md")}
        assert entries == beside - {page}
    else:
        assert added == ""


def test_no_link_leads_to_a_folder_which_the_site_cannot_show() -> None:
    links = {document: re.findall(r"\]\((?!https?:)([^)#\s]+)[^)]*\)", document.read_text()) for document in DOCUMENTS}
    folders = {
        name_of(document): [one for one in found if (document.parent / one).is_dir()]
        for document, found in links.items()
    }
    assert {name: found for name, found in folders.items() if found} == {}


def test_files_that_the_page_of_a_folder_does_not_name_are_listed_in_the_site() -> None:
    page = "docs/json/README"
    text = (REPOSITORY / f"{page}.md").read_text()
    added = in_navigation(page, text, REPOSITORY)
    assert [file.name for file in (DOCS / "json").glob("*.json") if f"]({file.name})" not in added] == []


def test_the_site_has_libraries_of_its_own_and_the_checks_build_it() -> None:
    groups = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["dependency-groups"]
    assert {name.partition(">=")[0].lower() for name in groups["docs"]} == {"furo", "myst-parser", "sphinx"}
    assert "\nmake docs\n" in (REPOSITORY / ".ci/run").read_text()
