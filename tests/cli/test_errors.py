"""Errors as a user reads them: what, where and why, then what to do next, in plain words and each once."""

import errno
import json
import os
import re
from pathlib import Path

import pytest

from lifebus.cli.advice import ADVICE, PREPARED
from lifebus.cli.app import known_words
from lifebus.cli.errors import explain
from lifebus_admin.installer.refusals import FileRefused
from lifebus_broker.atomic_files import create_file
from lifebus_broker.disk import Disk
from lifebus_contract import FailureClass, LifebusError, RetryClass
from lifebus_contract.codes import CODES, GROUPS
from support.command_line import Shell

MACHINE_WORDS = [one.value for one in (*FailureClass, *RetryClass)]
NO_BROKER = "no broker at {directory}/run; start one with `lifebus up`"


def test_an_error_says_what_to_do_next_without_the_contract_s_words(subtests: pytest.Subtests) -> None:
    for code in (*CODES, None):
        classes = CODES[code].failure_classes if code is not None else tuple(FailureClass)
        for failure in classes:
            with subtests.test(code=code, failure=failure):
                _, lines = explain(LifebusError("it failed", failure_class=failure, code=code))
                said = "\n".join(lines)
                assert lines[0] == "it failed"
                assert not [word for word in MACHINE_WORDS if word in said]
                assert len(lines) <= 2


BY_CLASS = ("Messages and documents", "Callback clients", "Renewal", "Routing", "Recording")
"""A document's faults are told by the detail; what becomes of clients, by receipts that have advice of their own."""


def test_what_a_command_may_meet_has_advice_of_its_own() -> None:
    met = {code for group, codes in GROUPS.items() if group not in BY_CLASS for code in codes}
    assert met - set(ADVICE) - PREPARED == set()
    assert set(ADVICE) | PREPARED <= set(CODES)


def test_every_command_that_advice_names_is_there() -> None:
    named = {words for text in ADVICE.values() for words in re.findall(r"`lifebus ((?:[a-z-]+ ?)+)", text)}
    assert {words: known_words(words.split()) for words in named} == {words: _commands(words) for words in named}
    assert {"doctor", "flow list", "ledger snapshots list"} <= {words.strip() for words in named}


def _commands(words: str) -> list[str]:
    """Return the words that are to be commands; what begins with a dash is a flag."""
    arguments = {"config show ledger": 1, "contract validate manifest": 1}.get(words.strip(), 0)
    named = [word for word in words.split() if not word.startswith("-")]
    return named[: len(named) - arguments]


def test_what_a_detail_says_of_the_next_step_stands_in_a_line_of_its_own() -> None:
    fault = FileRefused("/home/dev/settings.json", "it is no regular file", then="move away what stands there")
    said = "cannot use the file /home/dev/settings.json: it is no regular file"
    assert explain(fault) == (1, [said, "move away what stands there"])


@pytest.mark.parametrize("retry", RetryClass)
def test_without_a_code_the_retry_class_is_said_in_plain_words(retry: RetryClass) -> None:
    _, (_, after) = explain(LifebusError("it failed", failure_class=FailureClass.INTERNAL_ERROR, retry_class=retry))
    assert "try" in after


@pytest.mark.parametrize(
    "words",
    [
        *(
            ["status"],
            ["sessions"],
            ["tail"],
            ["dev", "tick"],
            ["clients"],
            ["app-server", "signals"],
            ["receipts", "show", "1"],
        ),
        ["emit", "session.started", "--adapter", "codex"],
    ],
)
def test_without_a_broker_every_command_says_once_how_to_start_one(alone: Shell, words: list[str]) -> None:
    ran = alone.call(*words)
    assert (ran.code, ran.out) == (69, "")
    assert ran.err == f"lifebus: {NO_BROKER.format(directory=alone.directory).replace('; ', chr(10) + '  ')}\n"


def test_with_json_an_error_is_one_line_with_the_contract_s_words(alone: Shell) -> None:
    ran = alone.call("status", "--json")
    assert (ran.code, ran.out) == (69, "")
    assert json.loads(ran.err) == {
        "error": {
            "exit_code": 69,
            "detail": NO_BROKER.format(directory=alone.directory),
            "next": ["start one with `lifebus up`"],
            "code": "no_broker",
            "failure_class": "transport_error",
            "retry_class": "safe_retry",
            "field": None,
        }
    }
    wrong = json.loads(alone.call("status", "--json", "--nope").err)["error"]
    assert (wrong["exit_code"], wrong["failure_class"], wrong["code"]) == (2, None, None)
    assert wrong["next"] == ["`lifebus status --help` shows what there is"]


def test_json_behind_two_dashes_is_another_program_s(alone: Shell) -> None:
    assert alone.call("serve", "--", "cat", "--json").err.startswith("lifebus: --event: which events")


def test_who_makes_two_mistakes_reads_of_both(alone: Shell) -> None:
    first, second, _ = alone.call("serve", "--", "./nope").err.splitlines()
    assert first.startswith("lifebus: there is no program ./nope; ")
    assert second.startswith("  --event: which events")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["ledger", "snapshots", "lst"],
            "there is no command `lifebus ledger snapshots lst`; did you mean `lifebus ledger snapshots list`?\n",
        ),
        (["status", "a", "b"], "not understood: a b\n  `lifebus status --help` shows what there is\n"),
        (["flow", "nope"], "there is no command `lifebus flow nope`; known are run, resume, check, "),
        (["inbox", "nope"], "there is no command `lifebus inbox nope`; known are "),
        (["flow", "--nope"], "there is no option `--nope`\n  `lifebus flow --help` shows what there is\n"),
        (["flow", "logs", "--nope"], "there is no option `--nope`\n  `lifebus flow logs --help` shows what there is\n"),
        (["flow", "list", "--status", "x"], "--status: there is no `x`; known are running, waiting,"),
        (["emit"], "give an EVENT with its flags, or --file with documents\n  `lifebus emit --help` shows"),
        (["contract", "manifest", "show", "nope"], "ADAPTER: there is no `nope`; known are codex, claude, gemini"),
    ],
)
def test_a_wrong_command_line_names_the_help_that_explains_it(alone: Shell, words: list[str], said: str) -> None:
    ran = alone.call(*words)
    assert ran.code == 2
    assert ran.err.startswith(f"lifebus: {said}")


@pytest.mark.parametrize("group", ["flow", "checkpoint"])
def test_a_group_alone_shows_its_help(alone: Shell, group: str) -> None:
    ran = alone.call(group)
    assert (ran.code, ran.out) == (0, alone.call(group, "--help").out)


@pytest.mark.parametrize(
    ("number", "after"),
    [
        (errno.ENOENT, "see that the path is right"),
        (errno.EACCES, "see that you may use it"),
        (errno.EISDIR, "name a file"),
        (errno.ENOSPC, "make room on the disk, then try again"),
        (errno.EIO, "put that right, then try again"),
    ],
)
def test_what_the_system_refused_says_where_and_what_to_do(number: int, after: str) -> None:
    fault = OSError(number, os.strerror(number), "/there")
    assert explain(fault) == (74, [f"/there: {os.strerror(number)}", after])


def test_a_document_that_is_no_utf_8_says_where(alone: Shell) -> None:
    path = alone.directory / "receipt.json"
    path.write_bytes(b'{"a": "\xff"}')
    assert "not valid JSON: byte 7 is not UTF-8" in alone.call("contract", "validate", "receipt", str(path)).out


def test_a_dispatch_that_cannot_be_read_names_stdin(alone: Shell) -> None:
    ran = alone.call("dev", "invoke", "--", "cat", stdin=b"{")
    assert ran.code == 65
    assert ran.err.startswith("lifebus: the dispatch on stdin: not valid JSON: ")
    assert ran.err.endswith("\n  correct that, then try again\n")


def test_flags_are_named_where_the_user_wrote_flags(alone: Shell) -> None:
    for words, said in (
        (["frame.opened"], "--frame: event `frame.opened` needs a frame context"),
        (["frame.opened", "--frame", ""], "--frame: it must not be empty"),
        (["session.started", "--adapter-version", ""], "--adapter-version: it must not be empty"),
    ):
        ran = alone.call("emit", *words, "--adapter", "codex", "--session", "s")
        assert (ran.code, ran.err) == (65, f"lifebus: {said}\n  correct that, then try again\n")


@pytest.mark.parametrize(
    "words", [["ledger", "show"], ["ledger", "verify"], ["ledger", "boot"], ["receipts", "export"]]
)
def test_a_ledger_that_is_not_there_yet_says_where_it_is_looked_for(alone: Shell, words: list[str]) -> None:
    ran = alone.call(*words)
    assert ran.code == 74
    first, then = ran.err.splitlines()[-2:]
    assert first == f"lifebus: {alone.directory}/state/ledger.db: there is no such ledger"
    assert "`lifebus config show --origin` shows where" in then


def test_a_full_disk_says_which_file_has_no_room(tmp_path: Path) -> None:
    class Full(Disk):
        def write(self, descriptor: int, contents: memoryview) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left") as refusal:
        create_file(tmp_path / "file", b"x", disk=Full())
    said = [f"{tmp_path}/file: No space left on device", "make room on the disk, then try again"]
    assert explain(refusal.value) == (74, said)
