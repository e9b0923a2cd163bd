"""The reader of a page, with a home of its own."""

from collections.abc import Iterator

import pytest

from support.command_line import Shell
from support.pages import Reader
from support.patience import PATIENCE
from support.running import short_directory


@pytest.fixture
def reader() -> Iterator[Reader]:
    with short_directory() as home:
        yield Reader(home)
        if (home / "run").exists():  # what the page started in the background is gone at the end
            Shell(home).call("down", "--timeout", PATIENCE)
