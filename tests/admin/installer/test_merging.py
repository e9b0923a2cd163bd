"""Which entries are ours: kept, replaced, taken out of groups of others; members beside lists; what status says."""

import json
from pathlib import Path
from typing import Any

import pytest

from lifebus_adapters.shared.assets import SettingsEntry, SettingsFile
from lifebus_admin.installer.formats.edit import text_installed, text_removed
from lifebus_admin.installer.plan import readable_diff
from lifebus_admin.installer.refusals import SettingsConflict
from lifebus_admin.installer.status import ForeignHooks
from support.installer.boxes import EVENTS, LAUNCHER, Box, fine, group, handler, owns, settings

THEIRS = {"type": "command", "command": "/usr/bin/theirs"}
LINE = SettingsEntry(kind="member", where=("statusLine",), value=handler("statusLine"))
PLUGIN = SettingsEntry(kind="member", where=("plugins", "entries", "lifebus"), value={"enabled": True})


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def test_ours_in_a_group_of_others_is_taken_out_alone() -> None:
    mixed = pretty({"hooks": {"Stop": [{"matcher": "x", "hooks": [THEIRS, handler("Stop")]}]}})
    left = text_removed(mixed, settings())
    assert left == pretty({"hooks": {"Stop": [{"matcher": "x", "hooks": [THEIRS]}]}})


def test_ours_in_a_group_of_others_gets_its_own_group_again() -> None:
    mixed = pretty({"hooks": {"Stop": [{"hooks": [handler("Stop"), THEIRS]}]}})
    after = json.loads(text_installed(mixed, settings(events=("Stop",))))
    assert after == {"hooks": {"Stop": [{"hooks": [THEIRS]}, group("Stop")]}}


def test_hooks_that_others_added_around_ours_stay_as_they_are() -> None:
    text = text_installed(pretty({"hooks": {"Stop": [{"hooks": [THEIRS]}]}}), settings())
    edited = json.loads(text)
    edited["hooks"]["Stop"].insert(0, {"matcher": "first", "hooks": [THEIRS]})
    edited["hooks"]["Stop"].append({"matcher": "last", "hooks": [THEIRS]})
    edited["hooks"]["SessionStart"].append({"hooks": [THEIRS]})
    left = text_removed(pretty(edited), settings())
    groups = [{"matcher": "first", "hooks": [THEIRS]}, {"hooks": [THEIRS]}, {"matcher": "last", "hooks": [THEIRS]}]
    assert left == pretty({"hooks": {"Stop": groups, "SessionStart": [{"hooks": [THEIRS]}]}})


def test_an_edited_one_of_ours_is_put_right_where_it_stands() -> None:
    first, last = {"hooks": [{"command": "a"}]}, {"hooks": [{"command": "b"}]}
    edited = {"hooks": [{**handler("Stop"), "timeout": 99}], "matcher": "mine"}
    text = pretty({"hooks": {"Stop": [first, edited, last]}})
    after = text_installed(text, settings(events=("Stop",)))
    assert after == pretty({"hooks": {"Stop": [first, group("Stop"), last]}})


def test_doubles_of_ours_are_reduced_to_one() -> None:
    text = pretty({"hooks": {"Stop": [group("Stop"), {"hooks": [THEIRS]}, group("Stop"), group("Old")]}})
    after = json.loads(text_installed(text, settings(events=("Stop",))))
    assert after == {"hooks": {"Stop": [group("Stop"), {"hooks": [THEIRS]}]}}


def test_ours_of_an_event_that_is_not_used_any_more_is_taken_out() -> None:
    text = pretty({"hooks": {"Gone": [group("Gone")], "Stop": [group("Stop")]}})
    after = text_installed(text, settings(events=("Stop",)))
    assert after == pretty({"hooks": {"Stop": [group("Stop")]}})


def test_several_entries_of_one_event_keep_their_order() -> None:
    entries = [
        SettingsEntry(kind="element", where=("hooks", "Stop"), value={**group("Stop"), "matcher": m}) for m in "abc"
    ]
    asset = SettingsFile(path="/s.json", dialect="json", entries=tuple(entries), owns=owns, check=fine)
    before = pretty({"model": "x"})
    after = text_installed(before, asset)
    assert [item["matcher"] for item in json.loads(after)["hooks"]["Stop"]] == ["a", "b", "c"]
    assert text_removed(after, asset) == before


@pytest.mark.parametrize("before", [{}, {"a": 1}, {"plugins": {"entries": {"x": {}}}}, {"plugins": {}}])
def test_members_are_set_and_taken_out_again(before: Any) -> None:
    asset = settings(more=(LINE, PLUGIN))
    for text in (json.dumps(before), pretty(before)):
        after = text_installed(text, asset)
        assert json.loads(after)["statusLine"] == handler("statusLine")
        assert json.loads(after)["plugins"]["entries"]["lifebus"] == {"enabled": True}
        assert text_installed(after, asset) == after
        assert text_removed(after, asset) == text


def test_a_member_of_somebody_else_is_not_written_over() -> None:
    text = pretty({"statusLine": THEIRS})
    with pytest.raises(SettingsConflict, match="statusLine is set to another value already, which is not ours"):
        text_installed(text, settings(more=(LINE,)))
    assert text_removed(text, settings(more=(LINE,))) == text


def test_an_older_member_of_ours_is_replaced_and_one_under_our_name_is_ours_whatever_it_holds() -> None:
    text = pretty({"statusLine": handler("old"), "plugins": {"entries": {"lifebus": {"enabled": False, "more": 1}}}})
    asset = settings(events=(), more=(LINE, PLUGIN))
    after = json.loads(text_installed(text, asset))
    assert after == {"statusLine": handler("statusLine"), "plugins": {"entries": {"lifebus": {"enabled": True}}}}
    assert text_removed(text, asset) is None


def test_a_member_that_is_right_already_but_not_ours_stays_when_ours_go() -> None:
    switch = SettingsEntry(kind="member", where=("tools", "search"), value=False)
    asset = settings(more=(switch,))
    before = pretty({"tools": {"search": False}})
    assert text_removed(text_installed(before, asset), asset) == before


def test_comments_that_were_added_to_a_list_of_ours_are_kept() -> None:
    asset = settings(dialect="jsonc", events=("Stop",))
    after = text_installed('{\n  "a": 1\n}\n', asset)
    edited = after.replace('"Stop": [\n', '"Stop": [ // my note\n')
    left = text_removed(edited, asset) or ""
    assert "// my note" in left
    assert "lifebus" not in left


def test_status_says_what_is_there(tmp_path: Path) -> None:
    box = Box(tmp_path)
    assert (box.status().state, [file.state for file in box.status().files]) == ("missing", ["missing", "missing"])
    box.install()
    status = box.status()
    assert (status.state, [file.state for file in status.files]) == ("present", ["present", "present"])
    assert all(file.installed == file.expected for file in status.files)
    box.launcher_path.write_text("edited")
    box.settings_path.write_text(box.settings_path.read_text().replace('"timeout": 5', '"timeout": 6'))
    status = box.status()
    assert (status.state, [file.state for file in status.files]) == ("foreign", ["drifted", "foreign"])
    assert all(file.installed not in {None, file.expected} for file in status.files)


def test_status_counts_the_hooks_of_others_and_says_nothing_of_them(tmp_path: Path) -> None:
    box = Box(tmp_path)
    hooks = {
        "Stop": [{"matcher": "x", "hooks": [THEIRS, THEIRS]}, {"hooks": [THEIRS, handler("Stop")]}],
        "PreToolUse": [{"hooks": [THEIRS]}],
        "Empty": [],
    }
    box.write(pretty({"hooks": hooks}).encode())
    file = box.status().files[0]
    assert file.foreign == (ForeignHooks(event="Stop", count=3), ForeignHooks(event="PreToolUse", count=1))
    assert "theirs" not in repr(file)


@pytest.mark.parametrize(
    ("contents", "state"),
    [
        (b"", "missing"),
        (b"{}", "missing"),
        (b"{", "unreadable"),
        (b"[]", "missing"),
        (pretty({"hooks": {"Stop": [group("Stop")]}}).encode(), "drifted"),
        (pretty({"hooks": {event: [group(event)] for event in (*EVENTS, "More")}}).encode(), "drifted"),
        (pretty({"hooks": {event: [group(event, f"/x{LAUNCHER}")] for event in EVENTS}}).encode(), "drifted"),
        (pretty({"statusLine": THEIRS}).encode(), "foreign"),
    ],
)
def test_the_state_of_settings(tmp_path: Path, contents: bytes, state: str) -> None:
    box = Box(tmp_path)
    box.write(contents)
    asset = settings(box.settings_path, more=(LINE,) if state == "foreign" else ())
    found = box.status([asset])
    assert (found.state, found.files[0].problem is None) == (state, state in {"missing", "drifted"})
    assert box.settings_path.read_bytes() == contents


def test_an_unwritable_path_is_reported_and_not_raised(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.settings_path.parent.mkdir(parents=True)
    box.settings_path.mkdir()
    file = box.status().files[0]
    assert (file.state, "regular file" in (file.problem or "")) == ("unreadable", True)


def test_a_diff_shows_control_characters_and_the_lines_around() -> None:
    before = "\n".join(f"line {number}" for number in range(100)) + "\nend \x1b[31m\n"
    after = before.replace("line 98\n", "line 98\nnew\n")
    assert readable_diff("/x", before, after).splitlines() == [
        "--- /x",
        "+++ /x",
        "@@ -97,5 +97,6 @@",
        " line 96",
        " line 97",
        " line 98",
        "+new",
        " line 99",
        " end \\x1b[31m",
    ]
    assert readable_diff("/x", "a\n", "a\n") == ""
    assert readable_diff("/x", "a", "a\n").splitlines()[3:] == [" a", "-\\ no line end at the end of the file"]


def test_a_long_line_is_shown_in_parts_and_the_others_as_they_are() -> None:
    before = '{"a": "x, [y]", "b": [1, 2]}'
    after = f'{{"a": "x, [y]", "b": [1, "{"z" * 240}"]}}'
    assert readable_diff("/x", before + "\n", after + "\n").splitlines() == [
        "--- /x (lines shown in parts)",
        "+++ /x (lines shown in parts)",
        "@@ -2,4 +2,4 @@",
        ' "a": "x, [y]",',
        '  "b": [',
        " 1,",
        "- 2]}",
        f'+ "{"z" * 240}"]}}',
    ]


@pytest.mark.parametrize("line", ['"', "it's {", '\\"a,', "", ",,[", '"a" b "c', "{" * 300])
def test_the_parts_of_a_line_make_the_line(line: str) -> None:
    shown = readable_diff("/x", "", line + "," * 241 + "\n").splitlines()[3:]
    assert "".join(part[1:] for part in shown) == line + "," * 241
