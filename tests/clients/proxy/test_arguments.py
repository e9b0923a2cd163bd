"""What stands before the `--`, also where the words are not plain and the parser has to read them."""

from collections.abc import Iterator

import pytest

from lifebus.proxy.program import ProxyOptions, read_options
from support.clients.proxy_box import proxy_box
from support.command_line import Shell
from support.running import short_directory


@pytest.fixture
def alone() -> Iterator[Shell]:
    with short_directory() as directory:
        yield Shell(directory)


def test_plain_words_are_read_without_the_parser() -> None:
    options = ProxyOptions(owned=False)
    words = ["--adapter", "codex", "--origin", "mine", "--runtime-dir", "here", "--", "server", "--", "-x"]
    assert read_options(words, options) == ["server", "--", "-x"]
    assert (options.adapter, options.origin, options.runtime_dir) == ("codex", "mine", "here")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--"],
        ["--help"],
        ["server"],
        ["--adapter", "--", "server"],
        ["--grace", "1s", "--", "server"],
        ["--adapter", "claude", "--", "server"],
    ],
)
def test_all_others_are_left_to_the_parser(words: list[str]) -> None:
    assert read_options(words, ProxyOptions(owned=True)) is None


@pytest.mark.parametrize("kind", ["tee", "run"])
def test_a_mistake_is_explained(alone: Shell, kind: str) -> None:
    assert f"lifebus app-server {kind} -- codex app-server" in alone.call("app-server", kind).err
    unknown = alone.call("app-server", kind, "--adaptor", "codex", "--", "true")
    assert (unknown.code, unknown.err.splitlines()) == (
        2,
        [
            "lifebus: there is no option `--adaptor`; did you mean --adapter?",
            f"  `lifebus app-server {kind} --help` shows what there is",
        ],
    )
    assert alone.call("app-server", kind, "--help").code == 0


def test_the_parser_comes_to_the_same(alone: Shell) -> None:
    with proxy_box("run", blind=True) as box:
        assert box.run(("echo", "--adapter"), b"", "--adapter=codex", "--grace=1s") == (0, b"--adapter\n", b"")
    assert alone.call("app-server", "run", "--grace", "soon", "--", "true").code == 2
