"""Which command lines are read without the parser, and that they mean the same."""

import pytest

from lifebus.cli.bus import broker_process
from lifebus.cli.bus.broker_process import up_plainly
from lifebus.cli.wording.plain_words import read_plain_words
from support.command_line import Shell

VALUES, SWITCHES = ("--session", "--key"), ("--json",)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["started"], {"0": "started"}),
        (["started", "--session", "s1"], {"0": "started", "--session": "s1"}),
        (["started", "--json", "--session=s=1"], {"0": "started", "--session": "s=1", "--json": ""}),
    ],
)
def test_plain_words_are_read(words: list[str], found: dict[str, str]) -> None:
    assert read_plain_words(words, values=VALUES, switches=SWITCHES, names=1) == found


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--session", "s1"],
        ["started", "more"],
        ["started", "--session"],
        ["started", "--session", "--json"],
        ["started", "--session="],
        ["started", "--session", "s1", "--session", "s2"],
        ["started", "--json=yes"],
        ["started", "--sess", "s1"],
        ["started", "--help"],
        ["started", "--", "--json"],
    ],
)
def test_everything_else_is_left_to_the_parser(words: list[str]) -> None:
    assert read_plain_words(words, values=VALUES, switches=SWITCHES, names=1) is None


@pytest.mark.parametrize("words", [["--detach"], ["--json"], ["--manifests", "a"], ["--help"], ["more"]])
def test_a_broker_with_other_flags_is_started_by_the_parser(words: list[str]) -> None:
    assert up_plainly(words) is None


@pytest.mark.parametrize("flag", ["--log-level", "--log-format", "--ledger-backend", "--config"])
def test_a_wrong_value_is_refused_alike(alone: Shell, flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = alone.call("up", flag, "wrong")
    monkeypatch.setattr(broker_process, "read_plain_words", lambda *_, **__: None)
    parsed = alone.call("up", flag, "wrong")
    assert plain == parsed
    assert parsed.code != 0
