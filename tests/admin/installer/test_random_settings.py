"""Random settings in random layouts, with comments where there are any: install and remove, and nothing moved."""

import json
from typing import Any, get_args

from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lifebus_adapters.shared.assets import Dialect
from lifebus_admin.installer.formats.edit import parsed_settings, text_installed, text_removed
from lifebus_admin.installer.formats.settings_diff import same, without_ours
from support.effort import effort
from support.installer.boxes import EVENTS, group, settings

BLANKS = [" ", "  ", "\n", "\r\n", "\t", "\n    ", "\n\t", "   "]
COMMENTS = ["// one\n", "/* two */", "/* three\n lines */", "//\r\n", "/**/"]
SCALARS = ["true", "false", "null", "0", "-1.5e3", '""', '"text"', '"\\u00e9\\n\\"}"', '"// no /* comment"', '"é😀"']
SCALARS_5 = ["0x1F", "+1", ".5", "Infinity", "'single \"'", "'line\\\non'"]
NAMES = ["a", "b", "hooks", "Stop", "PreToolUse", "SessionStart", "é", "a b", ""]


@st.composite
def blank(draw: st.DrawFn, dialect: Dialect) -> str:
    choices = BLANKS if dialect == "json" else BLANKS + COMMENTS
    return "".join(draw(st.lists(st.sampled_from(choices), max_size=2)))


@st.composite
def container(draw: st.DrawFn, dialect: Dialect, brackets: str, items: list[str]) -> str:
    gaps = [draw(blank(dialect)) for _ in range(2 * len(items) + 1)]
    text = brackets[0] + gaps[0]
    for place, item in enumerate(items):
        last = place == len(items) - 1
        comma = "," if not last or (dialect != "json" and draw(st.booleans())) else ""
        text += item + gaps[2 * place + 1] + comma + gaps[2 * place + 2]
    return text + brackets[1]


@st.composite
def value(draw: st.DrawFn, dialect: Dialect, depth: int = 0) -> str:
    kind = draw(st.sampled_from(["scalar", "object", "list"] if depth < 3 else ["scalar"]))
    if kind == "scalar":
        return draw(st.sampled_from(SCALARS + (SCALARS_5 if dialect == "json5" else [])))
    if kind == "list":
        return draw(container(dialect, "[]", draw(st.lists(value(dialect, depth + 1), max_size=3))))
    return draw(members(dialect, draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3)), depth, {}))


@st.composite
def members(draw: st.DrawFn, dialect: Dialect, names: list[str], depth: int, known: dict[str, str]) -> str:
    items = []
    for name in names:
        bare = dialect == "json5" and name.isidentifier() and draw(st.booleans())
        key = name if bare else json.dumps(name, ensure_ascii=draw(st.booleans()))
        body = known[name] if name in known else draw(value(dialect, depth + 1))
        items.append(f"{key}{draw(blank(dialect))}:{draw(blank(dialect))}{body}")
    return draw(container(dialect, "{}", items))


@st.composite
def document(draw: st.DrawFn, dialect: Dialect) -> str:
    """Return settings into which ours fit: `hooks` is an object there, and our events are lists."""
    lists = container(dialect, "[]", draw(st.lists(value(dialect, 2), max_size=3)))
    events = {event: draw(lists) for event in EVENTS}
    names = draw(st.lists(st.sampled_from([*EVENTS, "PreToolUse", "a"]), unique=True, max_size=4))
    hooks = draw(members(dialect, names, 1, events))
    outer = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    around = st.sampled_from(["", "\ufeff"]), blank(dialect), blank(dialect)
    mark, before, after = (draw(strategy) for strategy in around)
    text = draw(st.sampled_from(["object", "object", "object", "object", "nothing"]))
    body = "" if text == "nothing" else draw(members(dialect, outer, 0, {"hooks": hooks}))
    return mark + before + body + after


def check_round_trip(dialect: Dialect, before: str) -> None:
    asset = settings(dialect=dialect)
    old = parsed_settings(before, asset)
    after = text_installed(before, asset)
    new = parsed_settings(after, asset)
    for event in EVENTS:
        assert new["hooks"][event][-1] == group(event)
    assert same(without_ours(old, asset), without_ours(new, asset))
    assert list(old) == [key for key in new if key in old]
    assert text_installed(after, asset) == after
    assert text_removed(after, asset) == before
    narrow = settings(dialect=dialect, events=EVENTS[:1])
    assert text_removed(text_installed(after, narrow), asset) == before


def _json(text: str) -> Any:
    return json.loads(text.removeprefix("\ufeff"))


@hypothesis_settings(max_examples=effort(20, 600), deadline=None, suppress_health_check=list(HealthCheck))
@given(document("json"))
@example('{ "hooks": { "Stop": [ ] } }')
@example("\ufeff \n")
def test_json_comes_back_to_the_byte(before: str) -> None:
    check_round_trip("json", before)
    if before.removeprefix("\ufeff").strip():
        asset = settings()
        assert parsed_settings(before, asset) == _json(before)
        assert parsed_settings(text_installed(before, asset), asset) == _json(text_installed(before, asset))


@hypothesis_settings(max_examples=effort(20, 600), deadline=None, suppress_health_check=list(HealthCheck))
@given(document("jsonc"))
@example('{"a": [1 // x\n, 2,\n], // y\n}')
def test_json_with_comments_comes_back_to_the_byte(before: str) -> None:
    check_round_trip("jsonc", before)


@hypothesis_settings(max_examples=effort(20, 600), deadline=None, suppress_health_check=list(HealthCheck))
@given(document("json5"))
def test_json5_comes_back_to_the_byte(before: str) -> None:
    check_round_trip("json5", before)


ANY_SCALAR = st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text()
ANY_VALUE = st.recursive(ANY_SCALAR, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


@hypothesis_settings(max_examples=effort(20, 600), deadline=None, suppress_health_check=list(HealthCheck))
@given(ANY_VALUE)
def test_values_are_read_as_the_standard_library_reads_them(found: Any) -> None:
    for indent in (None, 2):
        text = json.dumps({"hooks": found, "other": found}, indent=indent, ensure_ascii=bool(indent))
        for dialect in get_args(Dialect)[:3]:
            assert parsed_settings(text, settings(dialect=dialect)) == json.loads(text)
