"""Settings that cannot be read: every command says which file, why and what to do, and none says that all is well."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_line import Shell

NOT_KNOWN = "whether lifebus's hooks are there is not known until it can be read"
NO_FILE = "cannot use the file {path}: it is no regular file; move away what stands there"
CORRECT = "correct the file, then try again; it is unchanged"
KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a directory": (Path.mkdir, NO_FILE),
    "a pipe": (os.mkfifo, NO_FILE),
    "no UTF-8": (
        lambda path: path.write_bytes(b'{"a": "\xff"}'),
        f"cannot read the settings {{path}}: byte 7 is not UTF-8; {CORRECT}",
    ),
    "broken JSON": (
        lambda path: path.write_text('{"a": '),
        f"cannot read the settings {{path}}:1:7: a value is missing or misspelt; {CORRECT}",
    ),
}


@pytest.fixture(params=KINDS)
def broken(request: pytest.FixtureRequest, alone: Shell) -> str:
    """Settings of Claude Code that cannot be read, without any installation; what is said of them."""
    path = alone.directory / ".claude" / "settings.json"
    path.parent.mkdir()
    make, words = KINDS[request.param]
    make(path)
    return words.format(path=path)


def test_the_status_names_the_file_and_is_no_good_answer(alone: Shell, broken: str) -> None:
    for arguments in ([], ["claude"]):
        ran = alone.call("hooks", "status", *arguments)
        assert (ran.code, ran.err) == (1, "")
        assert f"    {broken}\n  {NOT_KNOWN}\n" in ran.out
        assert "launcher" not in ran.out
    asked = alone.call("hooks", "status", "--json")
    (installation,) = asked.json["installations"]
    assert (asked.code, installation["state"], installation["sound"]) == (1, "unreadable", False)
    assert [file["problem"] for file in installation["files"]["files"]] == [broken]
    assert alone.call("hooks", "status", "codex").code == 0


def test_a_removal_and_a_test_of_all_hooks_say_what_they_cannot_see(alone: Shell, broken: str) -> None:
    for command in (["remove", "--yes"], ["test"]):
        ran = alone.call("hooks", *command)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err == f"lifebus: {broken}\n  {NOT_KNOWN}\n"


def test_the_hooks_of_another_harness_are_removed_all_the_same(alone: Shell, broken: str) -> None:
    assert alone.call("hooks", "install", "gemini", "--yes").code == 0
    ran = alone.call("hooks", "remove", "--yes")
    assert ran.code == 1
    assert broken in ran.err
    assert not (alone.directory / ".gemini").exists()


def test_the_doctor_says_it_too(alone: Shell, broken: str) -> None:
    ran = alone.call("doctor")
    assert ran.code == 1
    assert f"BAD  hooks        claude (native_hook, user): {broken}" in ran.out


def test_installed_hooks_whose_settings_broke_since(alone: Shell) -> None:
    assert alone.call("hooks", "install", "claude", "--yes").code == 0
    path = alone.directory / ".claude" / "settings.json"
    path.write_text('{"hooks": ')
    ran = alone.call("hooks", "status")
    assert ran.code == 1
    assert f"cannot read the settings {path}:1:11:" in ran.out
