"""Install and remove in YAML text: comments, flow and block style stay, and every byte is as before in the end."""

from typing import Any

import pytest
import yaml

from lifebus_adapters.shared.assets import SettingsEntry, SettingsFile
from lifebus_admin.installer.formats.edit import text_installed, text_removed
from lifebus_admin.installer.refusals import InstallRefused, SettingsConflict, SettingsUnreadable
from support.installer.boxes import EVENTS, handler, owns

CASES = {
    "an empty file": "",
    "white space only": " \n",
    "only a comment": "# nothing yet\n",
    "only a comment, no line end": "# nothing yet",
    "only a document start": "---\n",
    "other settings": "model:\n  default: x\napprovals: {mode: ask}\n",
    "no line end at the end": "model: x",
    "no line end after a list": "a:\n- 1\n- 2",
    "CRLF": "model: x\r\nhooks:\r\n  Stop:\r\n  - command: theirs\r\n",
    "a byte order mark": "\ufeffmodel: x\n",
    "comments everywhere": "# top\nmodel: x # why\n\n# below\nhooks: # ours?\n  # first\n  Stop: # stop\n  # theirs\n"
    "  - command: theirs # x\n    timeout: 3 # y\n  # after\n\n# end\n",
    "empty flow hooks": "a: 1\nhooks: {}\nb: 2\n",
    "empty flow hooks with blanks": "hooks: {  } # none\n",
    "empty flow event": "hooks:\n  Stop: []\n  Other: [ ]\n",
    "flow hooks": "hooks: {Stop: [{command: theirs, timeout: 3}], Other: []}\n",
    "flow hooks over lines": "hooks: {\n  Stop: [\n    {command: theirs} # mine\n  ]\n}\n",
    "hooks with nothing": "hooks:\nb: 2\n",
    "hooks with nothing at the end": "b: 2\nhooks:",
    "hooks with nothing but a comment": "hooks: # none yet\nb: 2\n",
    "an event with nothing": "hooks:\n  Stop:\n  Other:\n    - command: x\nb: 2\n",
    "an indented list": "hooks:\n    Stop:\n        - command: theirs\n          timeout: 1\n",
    "a list without indentation": "hooks:\n  Stop:\n  - command: theirs\n  - command: more\nb: 1\n",
    "an indented document": "  a: 1\n  hooks:\n    Stop:\n    - command: theirs\n",
    "quoted keys": "\"hooks\":\n  'Stop':\n  - \"command\": 'theirs'\n",
    "block scalars": "prompt: |\n  one\n  two\n\nhooks:\n  Stop:\n  - command: >-\n      theirs\n      goes on\n",
    "a block scalar at the end": "a: 1\nprompt: |\n  one\n\n  two\n",
    "a block scalar that keeps its end": "prompt: |+\n  one\n\n\n",
    "anchors elsewhere": "base: &base {a: 1}\nuse: *base\nmore:\n  <<: *base\n",
    "an alias at the end": "base: &base {a: 1}\nuse: *base\n",
    "a document start": "%YAML 1.1\n---\nhooks:\n  Stop:\n  - command: theirs\n",
    "dates and odd keys": "on: yes\n1: 2026-11-22\n~: x\nhooks:\n  on: []\n",
    "comments between hooks and its end": "hooks:\n  Stop:\n  - command: theirs\n\n\n\n# tail",
    "a dash on a line of its own": "hooks:\n  Stop:\n  -\n    command: theirs\n",
    "text over lines": "a: one\n  two\n  three\nb: 'one\n  two'\n",
}


def hermes(*events: str) -> SettingsFile:
    entries = tuple(
        SettingsEntry(kind="element", where=("hooks", event), value=handler(event)) for event in events or EVENTS
    )
    return SettingsFile(path="/home/dev/.hermes/config.yaml", dialect="yaml", entries=entries, owns=owns, check=_fine)


def _fine(value: Any) -> tuple[str, ...]:
    return ()


def test_after_install_and_remove_every_byte_is_as_before(subtests: pytest.Subtests) -> None:
    for case, before in CASES.items():
        with subtests.test(case=case):
            after = text_installed(before, hermes())
            assert text_removed(after, hermes()) == before


def test_what_is_installed_is_ours_at_the_end_and_everything_else_as_before(subtests: pytest.Subtests) -> None:
    for case, before in CASES.items():
        with subtests.test(case=case):
            old, new = yaml.safe_load(before) or {}, yaml.safe_load(text_installed(before, hermes()))
            hooks = {**(old.get("hooks") or {})}
            for event in EVENTS:
                hooks[event] = [*(hooks.get(event) or []), handler(event)]
            assert new == {**old, "hooks": hooks}


def test_every_line_that_was_there_is_still_there(subtests: pytest.Subtests) -> None:
    for case, before in CASES.items():
        with subtests.test(case=case):
            after = text_installed(before, hermes())
            assert [
                line for line in before.splitlines() if "{" not in line and "[" not in line and line not in after
            ] == []


def test_installing_again_changes_nothing(subtests: pytest.Subtests) -> None:
    for case, before in CASES.items():
        with subtests.test(case=case):
            after = text_installed(before, hermes())
            assert text_installed(after, hermes()) == after


def test_an_older_form_of_ours_is_replaced_and_still_taken_out_whole(subtests: pytest.Subtests) -> None:
    for case, before in CASES.items():
        with subtests.test(case=case):
            after = text_installed(before, hermes())
            older = after.replace("lifebus/lifebus-hook", "old/lifebus-hook")
            assert older != after
            assert yaml.safe_load(text_installed(older, hermes())) == yaml.safe_load(after)
            assert text_removed(text_installed(older, hermes()), hermes()) == before


def test_events_that_are_not_requested_any_more_are_taken_out(subtests: pytest.Subtests) -> None:
    for case, before in CASES.items():
        with subtests.test(case=case):
            after = text_installed(text_installed(before, hermes()), hermes("Stop"))
            assert (after.count("claude SessionStart"), after.count("claude Stop")) == (0, 1)
            assert text_removed(after, hermes("Stop")) == before


def test_a_missing_file_is_missing_again() -> None:
    after = text_installed(None, hermes())
    assert yaml.safe_load(after) == {"hooks": {event: [handler(event)] for event in EVENTS}}
    assert text_removed(after, hermes()) is None


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("a: [1", SettingsUnreadable, "config.yaml:1:6"),
        ("a:\n\t- 1\n", SettingsUnreadable, "config.yaml:2:1"),
        ("a: 1\n---\nb: 2\n", SettingsUnreadable, "another document"),
        ("a: 1\n...\n", SettingsUnreadable, "config.yaml:2:1: it has a document end marker"),
        ("a: !env X\n", SettingsUnreadable, "could not determine a constructor"),
        ("a: \x01\n", SettingsUnreadable, "not allowed"),
        ("[" * 5000, SettingsUnreadable, "deeply"),
        ("a: " + "x" * (256 * 1024), SettingsUnreadable, "more than"),
        ("- 1\n", SettingsConflict, "the outermost value is a list where an object is needed"),
        ("null\n", SettingsConflict, "the outermost value is null"),
        ("hooks: ~\n", SettingsConflict, "hooks is null"),
        ("hooks: []\n", SettingsConflict, "hooks is a list where an object is needed"),
        ("hooks: text\n", SettingsConflict, "hooks is a text"),
        ("hooks:\n  Stop: {}\n", SettingsConflict, "hooks.Stop is an object where a list is needed"),
        ("hooks: &x {}\n", SettingsConflict, "hooks has an anchor or an alias"),
        ("a: &x {}\nhooks: *x\n", SettingsConflict, "hooks has an anchor or an alias"),
        ("hooks: &x\n  Stop: [*x]\n", SettingsConflict, "anchor"),
        ("a: &x {}\nhooks:\n  <<: *x\n", SettingsConflict, "merge key"),
        ("hooks:\n  Stop: []\n  Stop: []\n", SettingsConflict, "twice"),
        ("hooks: {}\nhooks: {}\n", SettingsConflict, "twice"),
    ],
)
def test_what_cannot_be_spliced_with_certainty_is_refused(text: str, kind: type[InstallRefused], words: str) -> None:
    with pytest.raises(kind, match=words.replace("(", r"\(")):
        text_installed(text, hermes())


def test_hooks_of_others_that_were_added_around_ours_stay() -> None:
    after = text_installed("hooks:\n  Stop:\n  - command: a\n", hermes())
    edited = after + "  - command: b # theirs\n    timeout: 1\n"
    ours_first = edited.replace("  SessionStart:\n", "  Later:\n  - command: c\n  SessionStart:\n")
    left = text_removed(ours_first, hermes())
    assert yaml.safe_load(left or "")["hooks"]["Stop"][0] == {"command": "a"}
    assert "lifebus" not in (left or "")


def test_a_bomb_of_aliases_elsewhere_costs_nothing_and_stays() -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))
    assert text_removed(text_installed(bomb, hermes()), hermes()) == bomb


def test_what_refers_to_itself_elsewhere_stays() -> None:
    text = "a: &a [*a, 1]\n"
    assert text_removed(text_installed(text, hermes()), hermes()) == text
