"""What the oldest Python that we support does otherwise than the newer ones, and that we therefore leave alone.

Debian 12 has 3.11.2.  Before 3.11.4 an error raised in an `except*` clause arrives in a group of its own, also where a
plain one was meant; before 3.11.5 possessive quantifiers and atomic groups of `re` match wrongly around groups.
"""

import ast
import re

from support.sources import PRODUCT, SOURCES, offenders, text_of

CLASS = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]")
ESCAPE = re.compile(r"\\.", re.DOTALL)
FOR_GOOD = re.compile(r"\(\?>|[*+?}]\+")


def raised_in_except_star(source: str) -> list[int]:
    """Return the lines that raise within `except*`, functions that are only defined there included."""
    tree = ast.parse(source)
    return [
        node.lineno
        for star in ast.walk(tree)
        if isinstance(star, ast.TryStar)
        for handler in star.handlers
        for node in ast.walk(handler)
        if isinstance(node, ast.Raise)
    ]


def for_good(source: str) -> list[int]:
    """Return the lines with texts that have a possessive quantifier or an atomic group, were they patterns."""
    if not FOR_GOOD.search(source):  # to parse all sources costs seconds
        return []
    texts = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    return [node.lineno for node in texts if FOR_GOOD.search(_without_characters(node.value))]


def _without_characters(value: object) -> str:
    """Return a text that may be a pattern, without its escapes and classes of characters; else nothing."""
    if not isinstance(value, str | bytes):
        return ""
    text = value if isinstance(value, str) else value.decode("latin-1")
    return CLASS.sub("x", ESCAPE.sub("x", text))


def test_nothing_is_raised_in_except_star() -> None:
    assert offenders([path for path in SOURCES if "except*" in text_of(path)], raised_in_except_star) == {}


def test_no_pattern_has_a_possessive_quantifier_or_an_atomic_group() -> None:
    assert offenders(PRODUCT, for_good) == {}


def test_the_guards_bite() -> None:
    assert raised_in_except_star("try:\n    f()\nexcept* OSError as group:\n    raise group.exceptions[0]") == [4]
    assert raised_in_except_star("try:\n    f()\nexcept OSError:\n    raise") == []
    assert [for_good(f"p = re.compile({text!r})") for text in ("(?>a)", "(?:a|b)*+", "a++", "a{2}+", "a?+")] == [
        [1]
    ] * 5
    assert [for_good(f"p = re.compile({text!r})") for text in (r"\++", "[*+]+", "[]+]+", "a+", "(?=a)b*")] == [[]] * 5
