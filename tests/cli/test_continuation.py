"""continuation and renewal: tokens by hand, through stdin and stdout alone, without a broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import Shell
from support.running import short_directory
from support.supervisor.scripted import CONFIGURED

SECRET = "cont-4711-Aufpassen\nzwei Zeilen"


@pytest.fixture
def shell() -> Iterator[Shell]:
    with short_directory() as directory:
        config = directory / "config.toml"
        config.write_text(CONFIGURED + "max_bytes = 64\n")
        yield Shell(directory, LIFEBUS_CONFIG=str(config))


def stored(shell: Shell) -> str:
    folder = shell.directory / "state" / "continuations"
    return "".join(path.read_text() for path in folder.glob("*.json"))


def test_a_token_is_put_shown_listed_and_taken(shell: Shell) -> None:
    assert shell.call("renewal", "continuation", "put", "t-1", stdin=SECRET.encode()).code == 0
    for command in (("get", "t-1"), ("get", "t-1"), ("get", "t-1", "--consume")):
        ran = shell.call("renewal", "continuation", *command)
        assert (ran.code, ran.out) == (0, SECRET)
    gone = shell.call("renewal", "continuation", "show", "t-1", "--consume")
    assert (gone.code, gone.out) == (1, "")
    assert "Aufpassen" not in stored(shell)


def test_a_thread_has_one_token_and_it_is_not_overwritten(shell: Shell) -> None:
    shell.call("renewal", "continuation", "put", "t-1", stdin=b"first")
    again = shell.call("renewal", "continuation", "put", "t-1", stdin=b"second")
    assert (again.code, again.out) == (1, "")
    assert again.err == (
        "lifebus: a continuation of this thread is there already\n"
        "  `lifebus renewal continuation list` shows what waits; `lifebus renewal continuation remove` removes it\n"
    )
    assert shell.call("renewal", "continuation", "show", "t-1").out == "first"
    assert shell.call("renewal", "continuation", "remove", "t-1").code == 0
    assert shell.call("renewal", "continuation", "remove", "t-1").code == 1
    assert shell.call("renewal", "continuation", "put", "t-1", stdin=b"second").code == 0


def test_no_answer_but_get_shows_a_token(shell: Shell) -> None:
    put = shell.call("renewal", "continuation", "put", "t-1", "--session", "s-1", stdin=SECRET.encode())
    lines = "continuation list|continuation list --json|renewal status|renewal status --json|config show"
    shown = [shell.call(*line.split()) for line in [*lines.split("|"), "continuation put t-1", "manifest show codex"]]
    assert not any("4711" in ran.out + ran.err for ran in [put, *shown])
    (record,) = shown[1].json
    assert (record["thread"], record["state"], record["session"]) == ("t-1", "pending", "s-1")
    assert (record["bytes"], record["cwd"]) == (len(SECRET), str(Path.cwd()))
    assert 86_000 < record["expires_in_s"] <= 86_400
    status = shown[3].json
    assert [one["profile"] for one in status["profiles"]] == ["codex-renewal"]
    assert [one["thread"] for one in status["waiting"]] == ["t-1"]
    assert status["ended"] == []


def test_what_was_taken_is_shown_as_ended(shell: Shell) -> None:
    shell.call("renewal", "continuation", "put", "t-1", "--ttl", "2h", stdin=b"token")
    shell.call("renewal", "continuation", "show", "t-1", "--consume")
    status = shell.call("renewal", "--json").json
    assert [(one["state"], one["note"]) for one in status["ended"]] == [("consumed", "taken by hand")]
    assert "taken by hand" in shell.call("renewal", "status").out


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "said"),
    [
        (("put", "t-1"), b"", 65, "needs a thread and a token"),
        (("put", "t-1"), b"x" * 65, 65, "token of 64 bytes"),
        (("put", "t-1"), b"\xff", 65, "UTF-8"),
        (("put", "a\nb"), b"token", 2, "printable"),
        (("put", "t-1", "--profile", "codex-renewa"), b"token", 2, "did you mean codex-renewal"),
        (("put", "t-1", "--ttl", "soon"), b"token", 2, "not a duration"),
        (("get", "t-1"), b"", 1, "no token waits"),
    ],
)
def test_what_cannot_be_done_is_reported_in_a_sentence(
    shell: Shell, arguments: tuple[str, ...], stdin: bytes, code: int, said: str
) -> None:
    ran = shell.call("renewal", "continuation", *arguments, stdin=stdin)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_without_a_profile_there_is_nothing_to_keep_and_nothing_is_made(alone: Shell) -> None:
    ran = alone.call("renewal", "continuation", "put", "t-1", stdin=b"token")
    assert ran.code == 2
    assert "no renewal profile is configured" in ran.err
    assert alone.call("renewal", "status").code == 0
    assert alone.call("renewal", "continuation", "list", "--json").json == []
    assert not (alone.directory / "state").exists()


def test_a_directory_that_others_may_enter_is_not_used(shell: Shell) -> None:
    folder = shell.directory / "state" / "continuations"
    folder.mkdir(parents=True, mode=0o755)
    folder.chmod(0o755)
    ran = shell.call("renewal", "continuation", "put", "t-1", stdin=b"token")
    assert ran.code == 78
    assert "others may enter" in ran.err
