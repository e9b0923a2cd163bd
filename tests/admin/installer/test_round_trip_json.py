"""Install and remove in JSON text: all else stays byte for byte, and after the removal every byte is as before."""

import json
from typing import Any

import pytest

from lifebus_adapters.shared.assets import Dialect
from lifebus_admin.installer.formats.edit import parsed_settings, text_installed, text_removed
from lifebus_admin.installer.formats.settings_diff import same
from support.installer.boxes import EVENTS, group, settings

STRICT = {
    "an empty object": "{}",
    "an empty object with a line end": "{}\n",
    "an empty object over two lines": "{\n}",
    "an empty object with blanks": "{   }\n",
    "one line, tight": '{"a":1,"b":[1,2]}',
    "one line, airy": '{"a": 1, "b": [1, 2]}\n',
    "one line with blanks inside the brackets": '{ "a": 1 }',
    "no line end at the end": '{\n  "a": 1\n}',
    "tabs": '{\n\t"a": {\n\t\t"b": 1\n\t}\n}\n',
    "four blanks": '{\n    "a": 1\n}\n',
    "CRLF": '{\r\n  "a": 1\r\n}\r\n',
    "CRLF and an empty object of hooks": '{\r\n  "hooks": {}\r\n}\r\n',
    "a byte order mark": '\ufeff{\n  "a": 1\n}\n',
    "a byte order mark and nothing": "\ufeff",
    "an empty file": "",
    "white space only": " \n\t\r\n",
    "white space around": '\n\n  {"a": 1}  \n\n',
    "empty hooks": '{\n  "hooks": {}\n}\n',
    "empty hooks over two lines": '{\n  "hooks": {\n  },\n  "a": 1\n}\n',
    "an empty event": '{\n  "hooks": {\n    "Stop": []\n  }\n}\n',
    "an empty event with blanks": '{\n  "hooks": {\n    "Stop": [ ]\n  }\n}\n',
    "an empty event over two lines": '{\n  "hooks": {\n    "Stop": [\n    ]\n  }\n}\n',
    "an empty event in one line": '{"hooks": {"Stop": []}, "a": 1}',
    "an empty event in a line of a longer file": '{\n  "hooks": {"Stop": []},\n  "a": 1\n}',
    "the hook of another tool": '{\n  "hooks": {\n    "Stop": [\n      {"hooks": [{"command": "x"}]}\n    ]\n  }\n}\n',
    "two hooks of other tools in one group": json.dumps(
        {"hooks": {"Stop": [{"matcher": "", "hooks": [{"command": "one"}, {"command": "two"}]}]}}, indent=2
    ),
    "hooks of other tools in one line": json.dumps({"hooks": {"Stop": [{"hooks": [{"command": "one"}]}]}}),
    "hooks of other events": json.dumps({"hooks": {"PreToolUse": [{"hooks": []}], "Empty": []}}, indent=4),
    "unicode and escapes": '{\n  "a\\u0062\\ud83d\\ude00": "\\u00e9é😀\\/\\n"\n}\n',
    "an escaped key of ours": '{"\\u0068ooks": {"Stop": []}}',
    "a lone surrogate": '{"a": "\\ud800"}',
    "deep nesting": '{"a": ' + "[" * 150 + "]" * 150 + "}",
    "brackets and comment signs in text": '{\n  "a": "}, // no /* comment",\n  "b": "]\\"}"\n}\n',
    "large and exact numbers": '{"a": 1e400, "b": -0.0, "c": 123456789012345678901234567890}',
    "commas at the beginning of lines": '{\n    "a": 1\n  , "b": 2\n}\n',
    "mixed line ends": '{\n  "a": 1,\r\n  "b": 2\n}\r\n',
    "no indentation": '{\n"a": 1,\n"hooks": {\n"Stop": [\n]\n}\n}\n',
}
WITH_COMMENTS = {
    "only a comment": "// nothing yet\n",
    "only a block comment": "/* nothing */",
    "a comment in an empty object": "{\n  // nothing yet\n}\n",
    "a comment behind the bracket": "{// hi\n}",
    "a comment behind the last member": '{\n  "a": 1 // why\n}\n',
    "a comment below the last member": '{\n  "a": 1\n  // why\n}\n',
    "comments everywhere": '/*1*/{/*2*/"a"/*3*/:/*4*/1/*5*/}/*6*/',
    "a comment over lines": '{\n  "a": 1 /* one\n two */\n}\n',
    "a trailing comma": '{\n  "a": 1,\n}\n',
    "a trailing comma and a comment": '{\n  "a": 1, // why\n  // more\n}\n',
    "a trailing comma in one line": '{"a": [1,],}',
    "a trailing comma in an event": '{\n  "hooks": {\n    "Stop": [\n      {"hooks": []}, // mine\n    ],\n  },\n}\n',
    "a comment in an empty event": '{\n  "hooks": {\n    "Stop": [ /* none */ ]\n  }\n}\n',
    "a line comment in one-line items": '{"hooks": {"Stop": [{"hooks": []} // mine\n]}}',
    "a comment before the comma": '{\n  "a": 1 // one\n  , "b": 2 // two\n}\n',
    "no end of the last comment": '{"a": 1} // end',
}
JSON5 = {
    "bare keys": "{\n  a: 1,\n  $b_: 'x',\n}\n",
    "single quotes": "{'hooks': {'Stop': []}}",
    "numbers": "{a: 0x1F, b: +1, c: .5, d: 5., e: -Infinity, f: NaN}",
    "a line continued": "{a: 'one \\\n two', b: \"\\x41\\v\\0\"}",
    "strange white space": "{\u00a0a:\u20281\u2029,\ufeff}",
    "bare keys of ours": "{hooks: {Stop: [{hooks: []}], PreToolUse: []}}",
}
CASES: dict[Dialect, dict[str, str]] = {
    "json": STRICT,
    "jsonc": STRICT | WITH_COMMENTS,
    "json5": STRICT | WITH_COMMENTS | JSON5,
}


def without_hooks(value: Any) -> Any:
    hooks = {
        event: [item for item in items if item not in map(group, EVENTS)] for event, items in value["hooks"].items()
    }
    return {**value, "hooks": {event: items for event, items in hooks.items() if items}}


@pytest.mark.parametrize("dialect", CASES)
def test_after_install_and_remove_every_byte_is_as_before(dialect: Dialect, subtests: pytest.Subtests) -> None:
    for case, before in CASES[dialect].items():
        with subtests.test(case=case):
            asset = settings(dialect=dialect)
            after = text_installed(before, asset)
            assert after != before
            assert text_removed(after, asset) == before


@pytest.mark.parametrize("dialect", CASES)
def test_what_is_installed_is_ours_at_the_end_and_everything_else_as_before(
    dialect: Dialect, subtests: pytest.Subtests
) -> None:
    for case, before in CASES[dialect].items():
        with subtests.test(case=case):
            asset = settings(dialect=dialect)
            old, new = parsed_settings(before, asset), parsed_settings(text_installed(before, asset), asset)
            for event in EVENTS:
                assert new["hooks"][event][-1] == group(event)
            old_hooks = {event: items for event, items in old.get("hooks", {}).items() if items}
            assert same(without_hooks(new), {**old, "hooks": old_hooks})


@pytest.mark.parametrize("dialect", CASES)
def test_installing_again_changes_nothing(dialect: Dialect, subtests: pytest.Subtests) -> None:
    for case, before in CASES[dialect].items():
        with subtests.test(case=case):
            asset = settings(dialect=dialect)
            after = text_installed(before, asset)
            assert text_installed(after, asset) == after


@pytest.mark.parametrize("dialect", CASES)
def test_an_older_form_of_ours_is_replaced_and_still_taken_out_whole(
    dialect: Dialect, subtests: pytest.Subtests
) -> None:
    for case, before in CASES[dialect].items():
        with subtests.test(case=case):
            asset = settings(dialect=dialect)
            after = text_installed(before, asset)
            older = after.replace("lifebus/lifebus-hook", "old/lifebus-hook")
            assert older != after
            assert text_installed(older, asset) == after
            assert text_removed(older, asset) == before


@pytest.mark.parametrize("dialect", CASES)
def test_events_that_are_not_requested_any_more_are_taken_out(dialect: Dialect, subtests: pytest.Subtests) -> None:
    for case, before in CASES[dialect].items():
        with subtests.test(case=case):
            wide, narrow = settings(dialect=dialect), settings(dialect=dialect, events=("Stop",))
            after = text_installed(text_installed(before, wide), narrow)
            assert after.count("claude SessionStart") == 0
            assert after.count("claude Stop") == 1
            assert text_removed(after, narrow) == before


def test_a_missing_file_is_missing_again() -> None:
    after = text_installed(None, settings())
    assert json.loads(after) == {"hooks": {event: [group(event)] for event in EVENTS}}
    assert text_removed(after, settings()) is None
