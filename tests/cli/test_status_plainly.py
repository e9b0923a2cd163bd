"""`lifebus status` asks on the line socket where it can, and says what it says in the usual way."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from lifebus._internal import connection
from lifebus.cli.bus.plain_connection import REQUESTS, is_certainly_absent
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.read import status_plainly
from support.command_line import Ran, Shell, broker_up

USUAL = ("--",)
"""A word that plain words do not have: the parser reads the line, and ZeroMQ carries it."""


PASSING = ("broker", "counters", "scrub", "codex", "claude")
"""What differs from one moment to the next: ages, how far the check is, and counters, which count these requests."""


def without_passing(ran: Ran) -> list[str]:
    """Return the lines that say the same a moment later."""
    plain = re.sub(r"\x1b\[\d*m", "", ran.out)
    kept = zip(ran.out.splitlines(), plain.splitlines(), strict=True)
    return [re.sub(r"\b\d+ s\b", "", line) for line, words in kept if not words.startswith((*PASSING, "   "))]


def test_both_ways_print_the_same(bus: Shell) -> None:
    plain, usual = bus.call("status"), bus.call("status", *USUAL)
    assert without_passing(plain) == without_passing(usual)
    assert (plain.code, plain.err) == (usual.code, usual.err) == (0, "")


@pytest.mark.parametrize("variables", [{}, {"COLUMNS": "40"}, {"COLUMNS": "200"}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_shows_the_same(bus: Shell, variables: Mapping[str, str]) -> None:
    plain, usual = (bus.on_terminal("status", *more, variables=variables) for more in ((), USUAL))
    assert without_passing(plain) == without_passing(usual)
    assert ("\x1b[32mrunning\x1b[0m" in plain.out) is not ({"NO_COLOR", "TERM"} & set(variables) != set())


def test_every_state_is_shown_by_either_way_alike(alone: Shell) -> None:
    with broker_up(alone):
        assert states_alike(alone, "fresh") == []
        alone.call("hooks", "install", "codex", "claude", "--yes")
        call = {"session_id": "s1", "cwd": "/home/me/api", "hook_event_name": "SessionStart", "source": "startup"}
        alone.hook("claude", call)
        assert states_alike(alone, "sessions with hooks") == []
        told = {**call, "hook_event_name": "Notification", "notification_type": "permission_prompt", "message": "?"}
        alone.hook("claude", told)
        assert "waiting" in alone.call("status").out
        assert states_alike(alone, "one waits") == []
        for number in range(12):
            alone.call("emit", "session.started", "--adapter", "codex", "--session", f"s{number}")
        assert states_alike(alone, "many sessions") == []
        (alone.directory / ".codex/hooks.json").write_text("{")
        assert states_alike(alone, "unreadable hooks") == []
        shown = alone.call("status")
        assert "and 5 more" in shown.out
        assert "hooks     codex (native_hook, user): cannot read" in shown.out


def states_alike(shell: Shell, state: str) -> list[str]:
    """Return what the two ways show differently, piped, on a terminal and in JSON."""
    shows: tuple[Callable[..., list[str]], ...] = (
        lambda *more: without_passing(shell.call("status", *more)),
        lambda *more: without_passing(shell.on_terminal("status", *more)),
        lambda *more: [document_of(shell, *more)],
    )
    faults: list[str] = []
    for show in shows:
        plain, usual, again = show(), show(*USUAL), show()
        while plain != again:  # something was recorded meanwhile
            plain, usual, again = again, show(*USUAL), show()
        faults += [f"{state}: {line}" for line in sorted({*plain} ^ {*usual})]
    return faults


def document_of(shell: Shell, *more: str) -> str:
    """Return the JSON without what passes, its keys in their order."""
    document = shell.call("status", "--json", *more).json
    document.update(dict.fromkeys(("uptime_s", "counters", "scrub"), None))
    for harness in document["harnesses"]:
        harness.update({name: None for name in harness if name.endswith("_age_s")})
    return json.dumps(document)


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


ABSENT: dict[str, Mapping[str, int]] = {
    "nothing": {},
    "empty": {"run/": 0o700},
    "after a broker": {"run/": 0o700, "run/lock": 0o600},
}
UNSURE: dict[str, Mapping[str, int]] = {
    "open to others": {"run/": 0o755},
    "a file": {"run": 0o600},
    "below others' folder": {"others/": 0o777},
    "a socket of a killed one": {"run/": 0o700, "run/requests.ipc": 0o600},
    "a link": {"there/": 0o700},
    "an odd name": {},
}
"""What stands where a broker would be, with its modes."""


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.parametrize("how", [*ABSENT, *UNSURE])
def test_both_ways_say_that_there_is_no_broker(
    alone: Shell, how: str, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    below = {"below others' folder": "others/run", "an odd name": "run; $x: \n1"}.get(how, "run")
    run = alone.directory / below
    for name, mode in {**ABSENT, **UNSURE}[how].items():
        made = alone.directory / name
        if name.endswith("/"):
            made.mkdir()
        else:
            made.touch()
        made.chmod(mode)
    if how == "a link":
        run.symlink_to(alone.directory / "there")
    words = ("status", "--runtime-dir", str(run), "--timeout", "500ms", *more)
    usual = alone.call(*words, *USUAL)
    assert usual.code in {69, 78}
    said: list[bool] = []

    def noted(path: str) -> bool:
        said.append(is_certainly_absent(path))
        return said[-1]

    monkeypatch.setattr(status_plainly, "is_certainly_absent", noted)
    assert alone.call(*words) == usual
    assert said == ([] if more else [how in ABSENT])


def test_a_terminal_is_told_in_red_that_there_is_no_broker(alone: Shell) -> None:
    assert alone.on_terminal("status") == alone.on_terminal("status", *USUAL)
    assert "\x1b[31mlifebus: no broker at" in alone.on_terminal("status").out
    assert status_plainly.UNAVAILABLE == ExitCode.UNAVAILABLE
    assert REQUESTS == connection.REQUESTS
