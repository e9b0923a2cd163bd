"""docs/reliability.md names commands that exist: targets of the Makefile, parts of the bench, files of the suite."""

import re

from bench.measures import end_to_end, overload
from bench.measures.storage import durability, sessions
from support.paths import REPOSITORY

PAGE = (REPOSITORY / "docs/reliability.md").read_text()
MAKE = re.compile(r"`make ([a-z-]+)(?: [A-Z]+=[\d.]+)?(?: ARGS=\"([^\"`]*)\")?`")


def commands() -> list[tuple[str, list[str]]]:
    """Return the targets that the page names, each with its arguments."""
    return [(target, arguments.split()) for target, arguments in MAKE.findall(PAGE)]


def bench_parts() -> set[str]:
    text = (REPOSITORY / "bench/run.py").read_text().partition("\nPARTS")[2].partition("}\n")[0]
    own = set(re.findall(r'^    "(\w+)":', text, re.MULTILINE))
    return own | {*durability.PARTS, *end_to_end.PARTS, *overload.PARTS, *sessions.PARTS}


def test_every_command_of_the_page_is_one_of_make() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    assert len(commands()) == PAGE.count("`make ")
    assert {target for target, _ in commands()} <= targets


def test_every_part_of_the_bench_that_the_page_names_is_there() -> None:
    named = {word for target, words in commands() if target == "bench" for word in words if word[0] != "-"}
    assert named
    assert named <= bench_parts()


def test_every_test_that_the_page_names_is_there() -> None:
    named = {word for target, words in commands() if target in {"test", "torture"} for word in words}
    named |= set(re.findall(r"`(tests/[^ `]+)`", PAGE))
    for name in named:
        path, _, function = name.partition("::")
        assert (REPOSITORY / path).exists(), name
        assert not function or f"def {function}(" in (REPOSITORY / path).read_text(), name
