"""The lines of keys, against an oracle that puts a mark on each line."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from lifebus.flows.toml_lines import KeyPath, find_lines

DOCUMENT = '''\
# a comment with [brackets] and key = "value"
name = "release" # [not.a.table]
"quoted key" = 1
dotted.inner.key = 2
list = [
  "one", # comment, with a comma
  [ 2, 3 ],
  { four = 4 },
]
text = """
name = "inside"
[[phases]]
escaped \\""" quote"""
literal = \'\'\'
key = \\\'\'\'
[table]
key = { a = 1, b = { c = 2 } }

[[phases]]
name = "build"
[[phases.modifiable]]
name = "m1"
[[phases.modifiable]]
name = "m2"
[phases.pause]
first = "1s"

[[phases]]
name = "test"
[[phases.modifiable]]
name = "m3"
'''

EXPECTED: dict[KeyPath, int] = {
    ("name",): 2,
    ("quoted key",): 3,
    ("dotted",): 4,
    ("dotted", "inner"): 4,
    ("dotted", "inner", "key"): 4,
    ("list",): 5,
    ("list", 0): 6,
    ("list", 1): 7,
    ("list", 1, 0): 7,
    ("list", 1, 1): 7,
    ("list", 2): 8,
    ("list", 2, "four"): 8,
    ("text",): 10,
    ("literal",): 14,
    ("table",): 16,
    ("table", "key"): 17,
    ("table", "key", "a"): 17,
    ("table", "key", "b"): 17,
    ("table", "key", "b", "c"): 17,
    ("phases",): 19,
    ("phases", 0): 19,
    ("phases", 0, "name"): 20,
    ("phases", 0, "modifiable"): 21,
    ("phases", 0, "modifiable", 0): 21,
    ("phases", 0, "modifiable", 0, "name"): 22,
    ("phases", 0, "modifiable", 1): 23,
    ("phases", 0, "modifiable", 1, "name"): 24,
    ("phases", 0, "pause"): 25,
    ("phases", 0, "pause", "first"): 26,
    ("phases", 1): 28,
    ("phases", 1, "name"): 29,
    ("phases", 1, "modifiable"): 30,
    ("phases", 1, "modifiable", 0): 30,
    ("phases", 1, "modifiable", 0, "name"): 31,
}


def test_each_key_has_the_line_on_which_it_stands() -> None:
    tomllib.loads(DOCUMENT)
    assert find_lines(DOCUMENT) == EXPECTED


VALUES = st.sampled_from(
    [
        '"x = 1"',
        "'[a]'",
        '"""\n[t]\nk = 1\n"""',
        "'''\n\"\n'''",
        "[1,\n 2]",
        "{ a = 1 }",
        "1979-05-27T07:32:00Z",
        "-1.5e3",
    ]
)


@given(st.lists(st.tuples(st.sampled_from(["a", "b-c", '"d.e"', "f"]), VALUES), max_size=6))
def test_no_value_hides_the_keys_behind_it(parts: list[tuple[str, str]]) -> None:
    # Each key stands in a list of tables of its own, so that names may come again.
    lines: list[str] = []
    expected: dict[KeyPath, int] = {}
    for number, (key, value) in enumerate(parts):
        lines.append("[[one]]")
        expected["one", number, key.strip('"')] = len(lines) + 1
        lines += f"{key} = {value} # [[one]]".split("\n")
    text = "\n".join(lines)
    tomllib.loads(text)
    found = find_lines(text)
    assert {path: found[path] for path in expected} == expected
