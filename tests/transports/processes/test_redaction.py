"""What of a child's stderr may stand in a receipt."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_transports.processes.redaction import LONGEST, StderrTail, redact, secrets_in

SECRET = "hunter2-Zq8"
TELLING = [
    "token={}",
    "my_token: {}",
    '"access_token": "{}"',
    "{{'password': '{}'}}",
    "passwd={};next",
    "API_KEY={}",
    "api-key => {}",
    "config['secret'] = {}",
    "aws_secret_access_key = {}",
    "--token {}",
    "--api-key={}",
    "Authorization: Bearer {}",
    "authorization: Token {}",
    "curl -H 'authorization: basic {}'",
    "bearer {}",
    "Set-Cookie: session={}; Path=/",
    "https://me:{}@example.org/",
    "sk-{}-1234567890",
    "ghp_{}1234567890",
    "eyJ{}.eyJzdWIiOiIxIn0.sig",
    "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
    "\x1b[31mtok\x1b[0men=\x1b[1m{}",
]


@pytest.mark.parametrize("text", TELLING)
def test_what_is_named_like_a_secret_or_looks_like_one_goes(text: str) -> None:
    redacted = redact("before " + text.format(SECRET))
    assert SECRET not in redacted
    assert redacted.startswith("before ")
    assert "[redacted]" in redacted


@pytest.mark.parametrize(
    "text",
    [
        "KeyError: 'payloads'",
        "SyntaxError: Unexpected token } in JSON at position 3",
        "author: Ada",
        "listening on http://127.0.0.1:8080/",
        "line 3: syntax error near `done'",
    ],
)
def test_what_helps_stays(text: str) -> None:
    assert redact(text) == text


def test_secrets_that_were_passed_go_by_their_value() -> None:
    # The directory of a shell has a name like that, and is none.
    assert secrets_in({"PWD": "/home/me/project", "OLDPWD": "/home/me", "DB_PWD": "hunter2"}) == ["hunter2"]
    secrets = secrets_in({"MY_API_KEY": SECRET, "DB_PASSWORD": "other-secret", "PATH": "/bin", "EMPTY_TOKEN": ""})
    assert secrets == [SECRET, "other-secret"]
    assert redact(f"at /bin: {SECRET}/other-secret", secrets) == "at /bin: [redacted]/[redacted]"


@pytest.mark.parametrize("quote", [lambda body: body, json.dumps, lambda body: body[7:60], lambda body: body[-40:]])
def test_what_is_quoted_from_a_body_goes(quote: object) -> None:
    body = 'The user\'s "private" words:\nnever to be seen,\tnot even a part of them, not anywhere.'
    redacted = redact(f"cannot parse {quote(body)} here", bodies=[body])  # type: ignore[operator]  # a lambda
    assert redacted.startswith("cannot parse ")
    assert redacted.endswith(" here")
    assert not any(word in redacted for word in ("private", "never", "anywhere"))


def test_a_short_body_goes_as_a_whole() -> None:
    assert redact("got: hello", bodies=["hello"]) == "got: [redacted]"


def test_nothing_steers_a_terminal() -> None:
    assert redact("a\x1b]0;title\x07b\x1b[2Jc\r\n\x00d\u202ee") == "abc d e"


def test_the_end_is_kept() -> None:
    redacted = redact("x " * 1_000 + "the end")
    assert len(redacted) == LONGEST
    assert redacted.startswith("…")
    assert redacted.endswith("the end")


def test_half_a_secret_at_the_cut_is_not_kept() -> None:
    tail = StderrTail()
    tail.add(b"token=" + b"s" * 9_000)
    assert tail.text() == ""
    tail.add(b" and more")
    assert tail.text() == "and more"
    tail.clear()
    tail.add(b"\xff")
    assert tail.text() == "\ufffd"


@given(st.lists(st.binary(max_size=5_000), max_size=8), st.text(max_size=200))
def test_any_bytes_become_a_short_printable_text(chunks: list[bytes], body: str) -> None:
    tail = StderrTail()
    for chunk in chunks:
        tail.add(chunk)
    redacted = redact(tail.text(), ["abcd"], [body])
    assert len(redacted) <= LONGEST
    assert redacted.isprintable()


@pytest.mark.parametrize("word", ["key", "token", "-", "--key ", "eyJ", "sk-", "a", "://", "auth=", '"', "key'"])
def test_no_text_takes_long(word: str) -> None:
    started = time.process_time()
    redact((word * 8_192)[:8_192], bodies=["x" * 200_000, word * 100])
    assert time.process_time() - started < 2
