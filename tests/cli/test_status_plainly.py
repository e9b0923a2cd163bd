"""`lifebus status` asks on the line socket where it can, and says what it says in the usual way."""

import re
from pathlib import Path

import pytest

from lifebus.cli.read import status_plainly
from support.command_line import Ran, Shell, broker_up

USUAL = ("--timeout", "1m")
"""A flag that plain words do not have: the parser reads the line, and ZeroMQ carries it."""


def told(ran: Ran) -> tuple[int, list[str], str]:
    """Return what was printed, without numbers and without the counters, which count these very requests."""
    lines = [re.sub(r"\d+", "0", line) for line in ran.out.splitlines() if not line.startswith("counters")]
    return ran.code, lines, ran.err


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_both_ways_print_the_same(bus: Shell, words: tuple[str, ...]) -> None:
    plain, usual = told(bus.call("status", *words)), told(bus.call("status", *words, *USUAL))
    assert plain == usual
    assert plain[0] == 0


def test_a_plain_line_opens_no_connection_of_zeromq(bus: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    before = bus.call("status", "--json").json["counters"]["requests"]
    assert bus.call("status", "--json").json["counters"]["requests"] == before
    assert bus.call("status", "--json", *USUAL).json["counters"]["requests"] > before

    def answer_of_another_version(_: str, __: bytes) -> bytes:
        return b'{"id":1,"ok":{"version":1}}\n'

    monkeypatch.setattr(status_plainly, "ask_line", answer_of_another_version)
    assert bus.call("status").code == 0  # it is asked in the usual way


def test_without_the_socket_or_a_broker_it_is_the_usual_way(alone: Shell, tmp_path: Path) -> None:
    with broker_up(alone):
        (alone.directory / "run" / "lines.sock").rename(tmp_path / "away")
        assert "running" in alone.call("status").out
    assert alone.call("status") == alone.call("status", *USUAL)
    assert alone.call("status").code == 69
