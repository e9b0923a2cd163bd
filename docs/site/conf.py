"""The settings of Sphinx for the site that `make docs` builds.

The pages are the Markdown files of the repository as they are: the four documents in its root, and all of `docs/`.
What the site adds is a navigation, which `docs/site/navigation.py` reads from the lists of `docs/index.md`.
"""

import sys
from pathlib import Path

from pygments.lexers.data import JsonLexer
from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from navigation import START, in_navigation  # noqa: E402  # beside this file, which is no package

project = "lifebus"
copyright = "the authors of lifebus"  # noqa: A001  # Sphinx names its settings
root_doc = START
extensions = ["myst_parser"]
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md"]
# Sphinx looks for pages in every folder that is not left out.
exclude_patterns = [".*", "build", "dist", "broker", "transports", "supervisor", "clients", "tests", "bench"]

myst_heading_anchors = 4  # links to headings are those of the repository's own pages
suppress_warnings = [
    "myst.header",  # numbered rules are headings of the fourth level, wherever they stand
    "misc.highlighting_failure",  # samples leave something out: {…}
]

html_theme = "furo"
html_title = "lifebus"
html_show_sphinx = False
html_copy_source = False
html_permalinks_icon = "#"
templates_path = [str(HERE)]
html_additional_pages = {"index": "home.html"}

linkcheck_ignore = [r"http://127\.0\.0\.1.*", r"http://localhost.*"]


def add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    """Add the lists of pages that Sphinx navigates by to the pages that have them as links."""
    source[0] += in_navigation(page, source[0], HERE.parent.parent)


def setup(app: Sphinx) -> None:
    """Have Sphinx call this file's functions, and know the languages of our samples."""
    app.connect("source-read", add_navigation)
    app.add_lexer("jsonl", JsonLexer)
