"""Which texts are paths beneath a root."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_contract import InvalidRequest
from lifebus_transports.workspace.paths import BeneathPath, parse_file_path, parse_path, unfinished_name


@pytest.mark.parametrize(
    ("text", "names", "of_directory"),
    [
        (".", (), True),
        ("./", (), True),
        ("a", ("a",), False),
        ("a/b.md", ("a", "b.md"), False),
        ("./a//b", ("a", "b"), False),
        ("a/", ("a",), True),
        ("a/.", ("a",), True),
        ("...", ("...",), False),
        ("..a/b..", ("..a", "b.."), False),
        ("a\\..\\b", ("a\\..\\b",), False),
        ("é/\n", ("é", "\n"), False),
        ("~/a", ("~", "a"), False),
    ],
)
def test_a_path_is_the_names_from_the_root_on(text: str, names: tuple[str, ...], of_directory: bool) -> None:
    assert parse_path(text) == BeneathPath(names, of_directory)


REFUSED = {
    "": "path_invalid",
    "/": "path_outside",
    "/etc/passwd": "path_outside",
    "//etc": "path_outside",
    "..": "path_outside",
    "../x": "path_outside",
    "a/../b": "path_outside",
    "a/..": "path_outside",
    "./..": "path_outside",
    "a\0b": "path_invalid",
    "\0": "path_invalid",
    "a/\ud800": "path_invalid",
    "n" * 256: "path_invalid",
    "é" * 128: "path_invalid",
    "a/" * 2_048: "path_invalid",
    "a/.lifebus-0123456789abcdef.tmp": "path_invalid",
    ".lifebus-0123456789abcdef.tmp/a": "path_invalid",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: ascii(text[:24]))
def test_what_leads_out_or_is_no_path_is_refused_with_its_code(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_path(text)
    assert refused.value.code == REFUSED[text]
    refused.value.detail.encode()


def test_the_longest_names_and_paths_are_taken() -> None:
    assert parse_path("n" * 255).names == ("n" * 255,)
    longest = "/".join(["n" * 255] * 15 + ["n" * 254 + "/"])[:4_095]
    assert len(parse_path(longest).names) == 16


@pytest.mark.parametrize("text", [".", "a/", "a/.", "./"])
def test_a_file_has_no_path_of_a_directory(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_file_path(text)
    assert refused.value.code == "not_a_file"


def test_a_reserved_name_is_the_one_that_writers_use() -> None:
    with pytest.raises(InvalidRequest):
        parse_path(unfinished_name(b"\x00" * 8))


@given(st.text(st.sampled_from("/.~a\0\\ é\ud800"), max_size=12))
def test_no_name_of_any_path_leads_anywhere_but_down(text: str) -> None:
    try:
        found = parse_path(text)
    except InvalidRequest:
        return
    assert not {"", ".", ".."} & set(found.names)
    assert not any("/" in name or "\0" in name for name in found.names)
