"""`lifebus status` asks on the line socket where it can, and says what it says in the usual way."""

from pathlib import Path

import pytest

from lifebus.cli.read import status_plainly
from support.command_line import Shell, broker_up

USUAL = ("--",)
"""A word that plain words do not have: the parser reads the line, and ZeroMQ carries it."""


PASSING = ("broker", "counters", "scrub", "codex")
"""What differs from one moment to the next: ages, how far the check is, and counters, which count these requests."""


def test_both_ways_print_the_same(bus: Shell) -> None:
    plain, usual = bus.call("status"), bus.call("status", *USUAL)
    shown = [[one for one in ran.out.splitlines() if not one.startswith(PASSING)] for ran in (plain, usual)]
    assert shown[0] == shown[1]
    assert (plain.code, plain.err) == (usual.code, usual.err) == (0, "")


def test_both_ways_answer_the_same_json(bus: Shell) -> None:
    plain, usual = (bus.call("status", "--json", *more).json for more in ((), USUAL))
    # In the same order, too: what is read by `diff` shall not move.
    assert list(plain) == list(usual)
    assert list(plain["counters"]) == list(usual["counters"])
    changing = {"uptime_s", "counters", "scrub", "harnesses"}
    assert {**plain, **dict.fromkeys(changing)} == {**usual, **dict.fromkeys(changing)}


def test_a_plain_line_opens_no_connection_of_zeromq(bus: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    before = bus.call("status", "--json").json["counters"]["requests"]
    assert bus.call("status", "--json").json["counters"]["requests"] == before
    assert bus.call("status", "--json", *USUAL).json["counters"]["requests"] > before

    def answer_of_another_version(_: str, __: bytes, ___: float) -> bytes:
        return b'{"id":1,"ok":{"version":1}}\n'

    monkeypatch.setattr(status_plainly, "ask_line", answer_of_another_version)
    assert bus.call("status").code == 0  # it is asked in the usual way


def test_without_the_socket_or_a_broker_it_is_the_usual_way(alone: Shell, tmp_path: Path) -> None:
    with broker_up(alone):
        (alone.directory / "run" / "lines.sock").rename(tmp_path / "away")
        assert "running" in alone.call("status").out
    assert alone.call("status") == alone.call("status", *USUAL)
    assert alone.call("status").code == 69
