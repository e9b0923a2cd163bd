"""The tree of commands: what the first screen shows, and what became of the names that commands had before."""

import re
import subprocess
import sys

import pytest

from lifebus.cli.app import known_words, make_app
from lifebus.cli.command_table import FIRST, FURTHER
from lifebus.cli.old_names import FOR_PROGRAMS, MOVED, MOVED_FLAGS, present_words
from support.command_line import Shell
from support.paths import DOCS, REPOSITORY
from support.shapes.command_tree import commands
from support.sources import DOCUMENTS

FIRST_SCREEN = [
    *("up", "down", "status", "doctor", "hooks", "top", "tail", "sessions", "receipts"),
    *("notify", "inject", "report", "clients", "config", "demo"),
]
OLD = [words for words in MOVED if present_words(words)[0][:2] not in map(list, FOR_PROGRAMS)]
RECORDED = [words for words in MOVED if words not in OLD]


def test_the_first_screen_is_for_users_and_fits_a_terminal(alone: Shell) -> None:
    lines = alone.on_terminal("--help", variables={"NO_COLOR": "1"}).out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    shown = [line.split()[0] for line in lines if re.match(r"  [a-z]+  ", line)]
    assert shown == list(FIRST) == [name for name in FIRST_SCREEN if name in FIRST]
    rest = " ".join(lines[lines.index("More; each has a --help of its own:") + 1 :])
    assert re.findall(r"[a-z-]+", re.sub(r" \(.*?\)", "", rest)) == list(FURTHER)


def test_what_the_first_screen_says_of_a_group_is_in_it() -> None:
    for name, row in FURTHER.items():
        assert all(known_words([name, member]) == [name, member] for member in row.members), name


@pytest.mark.parametrize("words", OLD, ids=" ".join)
def test_an_old_name_is_understood_and_its_present_one_is_said(alone: Shell, words: tuple[str, ...]) -> None:
    present = present_words(words)[0]
    ran, now = alone.call(*words, "--help"), alone.call(*present, "--help")
    assert (ran.code, ran.out) == (now.code, now.out)
    assert ran.err.count("\n") == 1
    assert ran.err.startswith(f"`lifebus {' '.join(words)}` is called `lifebus {' '.join(present)}` now; ")
    assert known_words(present) == present


@pytest.mark.parametrize("words", RECORDED, ids=" ".join)
def test_a_program_that_starts_a_command_by_an_old_name_reads_nothing_new(alone: Shell, words: tuple[str, ...]) -> None:
    present = present_words(words)[0]
    assert alone.call(*words, "--help") == alone.call(*present, "--help")
    assert "is called" in alone.on_terminal(*words, "--help").out


def test_json_on_stderr_stays_json(alone: Shell) -> None:
    failed = alone.call("manifest", "show", "nope", "--json")
    assert (failed.code, failed.err) == (2, alone.call("contract", "manifest", "show", "nope", "--json").err)


def test_an_exit_code_does_not_hang_on_the_name(alone: Shell) -> None:
    old, new = alone.call("save", "everything"), alone.call("ledger", "save", "everything")
    assert (old.code, old.out, old.err.splitlines()[1:]) == (new.code, new.out, new.err.splitlines())


def test_a_recorded_command_line_of_an_editor_passes_every_byte(alone: Shell) -> None:
    line = [sys.executable, "-m", "lifebus", "tee", "--", "sh", "-c", "cat; echo oops >&2"]
    ran = subprocess.run(line, input=b"{}\n\xff", capture_output=True, env=alone.environment, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"{}\n\xff", b"oops\n")


def test_no_document_uses_an_old_name() -> None:
    shown = {
        (path.name, words)
        for path in DOCUMENTS
        if path.name != "CHANGELOG.md"
        for words in re.findall(r"`lifebus ([a-z-]+(?: [a-z-]+){0,2})", path.read_text())
    }
    assert shown
    assert [one for one in sorted(shown) if present_words(one[1].split())[1] is not None] == []


def test_no_document_uses_an_old_flag() -> None:
    pages = [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))]
    lines = [(page.name, line) for page in pages for line in page.read_text().splitlines()]
    assert [
        (page, line)
        for page, line in lines
        for command, flags in MOVED_FLAGS.items()
        for old in flags
        if re.search(rf"lifebus {' '.join(command)} [^`|]*{old}\b", line)
    ] == []


def test_one_thing_has_one_flag() -> None:
    found = {" ".join(path): app for path, app in commands(make_app())}
    flags = {
        name: {flag for one in app.assemble_argument_collection() for flag in one.names} for name, app in found.items()
    }
    # The name of a callback client, a harness, the number of the newest, and yes beforehand.
    assert {name for name, own in flags.items() if own & {"--client-id", "--harness", "--lines", "--limit"}} == set()
    assert {name for name, own in flags.items() if "--last" in own and "-n" not in own} == set()
    assert {name for name, own in flags.items() if "--yes" in own and "-y" not in own} == set()


def test_the_old_names_are_documented() -> None:
    rows = re.findall(r"^\| `([a-z -]+)` \| `([a-z -]+)` \|$", (DOCS / "command-line.md").read_text(), re.MULTILINE)
    assert rows == [(" ".join(words), " ".join(present_words(words)[0])) for words in MOVED]
