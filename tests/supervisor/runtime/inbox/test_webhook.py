"""The webhook against a real server: signed, tried again, nothing secret."""

import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from lifebus_contract.questions import Notification, QuestionInfo
from support.inbox.delivering import SECRET, Clock, delivering, next_post, until, webhook
from support.inbox.http_receiver import receiving
from support.inbox.questions import AT_MS, answer, inbox_of, ledger_in, question
from support.inbox.signatures import is_genuine


async def test_a_webhook_gets_the_question_signed_and_learns_of_its_end(tmp_path: Path) -> None:
    clock = Clock()
    async with ledger_in(tmp_path) as ledger:
        with receiving() as receiver:
            inbox = await inbox_of(ledger, clock)
            async with delivering(inbox, clock, hook=webhook(receiver.url, tmp_path, clock)):
                await inbox.ask(question(context={"errors": ["timeout"]}))
                first = await next_post(receiver)
                info = await until(inbox, "q_1", lambda info: bool(info.notifications))
                assert info.notifications == (Notification(channel="hook", tries=1, delivered_at_ms=AT_MS),)
                await inbox.answer("q_1", answer(message="done"))
                second = await next_post(receiver)
    assert first.path == "/hook?from=test"
    assert all(is_genuine(post, SECRET.encode()) for post in (first, second))
    assert first.headers["content-type"] == "application/json"
    assert first.headers["webhook-timestamp"] == str(AT_MS // 1000)
    assert (first.document["type"], second.document["type"]) == ("question.asked", "question.answered")
    assert first.document["delivery_id"] == first.headers["webhook-id"] != second.headers["webhook-id"]
    asked = first.document["question"]
    # With its usual values: a receiver elsewhere does not know them.
    assert asked["kind"] == "escalation"
    assert {one["kind"] for one in asked["modifiable"]} <= {"text", "integer", "truth", "list"}
    assert (asked["question_id"], asked["context"]) == ("q_1", {"errors": ["timeout"]})
    assert second.document["answer"]["message"] == "done"


async def test_a_secret_behind_whsec_is_base64(tmp_path: Path) -> None:
    clock = Clock()
    (tmp_path / "secret").write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    (tmp_path / "secret").chmod(0o600)
    async with ledger_in(tmp_path) as ledger:
        with receiving() as receiver:
            inbox = await inbox_of(ledger, clock)
            async with delivering(inbox, clock, hook=webhook(receiver.url, tmp_path, clock)):
                await inbox.ask(question())
                post = await next_post(receiver)
    key = bytes.fromhex("31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0")
    assert is_genuine(post, key)


async def test_a_webhook_posts_nothing_that_looks_like_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    context = {
        "api_key": "k-123456789",
        "log": "Authorization: Bearer abcdefghijk\nline two",
        "deep": [{"note": f"the secret is {SECRET}"}, "sk-abcdefghijklmnop"],
        "tokens_used": 7,
    }
    async with ledger_in(tmp_path) as ledger:
        with receiving() as receiver:
            inbox = await inbox_of(ledger, clock)
            async with delivering(inbox, clock, hook=webhook(receiver.url, tmp_path, clock)):
                await inbox.ask(question(context=context, reason="password=hunter22 is refused"))
                post = await next_post(receiver)
    for secret in ("k-123456789", "abcdefghijk", SECRET, "hunter22"):
        assert secret.encode() not in post.body
    assert post.document["question"]["context"]["tokens_used"] == 7
    assert "line two" in post.document["question"]["context"]["log"]


async def test_a_failed_delivery_is_tried_again_under_the_same_id_after_longer_pauses(
    tmp_path: Path,
) -> None:
    clock = Clock()
    async with ledger_in(tmp_path) as ledger:
        with receiving() as receiver:
            receiver.answer = lambda number: (500, {}) if number < 4 else (200, {})
            inbox = await inbox_of(ledger, clock)
            async with delivering(inbox, clock, hook=webhook(receiver.url, tmp_path, clock)) as deliveries:
                await inbox.ask(question())
                for tries, pause_s in ((1, 5), (2, 10), (3, 20)):
                    await next_post(receiver)
                    info = await until(inbox, "q_1", lambda info, n=tries: _tries(info) == n)  # type: ignore[misc]
                    assert info.notifications[0].fault == "the server answered 500"
                    assert inbox.failing_count == 1
                    clock.now_ms += pause_s * 1000 - 1
                    deliveries.wake()
                    await anyio.wait_all_tasks_blocked()
                    assert len(receiver.posts) == tries, "too early"
                    clock.now_ms += 1
                    deliveries.wake()
                await next_post(receiver)
                info = await until(inbox, "q_1", lambda info: _tries(info) == 4)
                assert info.notifications[0] == Notification(channel="hook", tries=4, delivered_at_ms=clock.now_ms)
                assert inbox.failing_count == 0
            assert len({post.headers["webhook-id"] for post in receiver.posts}) == 1
            assert len({post.headers["webhook-timestamp"] for post in receiver.posts}) == 4
            assert all(is_genuine(post, SECRET.encode()) for post in receiver.posts)


def _tries(info: QuestionInfo) -> int:
    return info.notifications[0].tries if info.notifications else 0


async def test_the_pause_that_a_server_asks_for_is_kept_and_survives_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    async with ledger_in(tmp_path) as ledger:
        with receiving() as receiver:
            receiver.answer = lambda number: (503, {"Retry-After": "120"}) if number == 1 else (200, {})
            inbox = await inbox_of(ledger, clock)
            async with delivering(inbox, clock, hook=webhook(receiver.url, tmp_path, clock)):
                await inbox.ask(question())
                await next_post(receiver)
                await until(inbox, "q_1", lambda info: _tries(info) == 1)
            clock.now_ms += 119_999
            again = await inbox_of(ledger, clock)
            async with delivering(again, clock, hook=webhook(receiver.url, tmp_path, clock)) as deliveries:
                await anyio.wait_all_tasks_blocked()
                assert len(receiver.posts) == 1
                clock.now_ms += 1
                deliveries.wake()
                await next_post(receiver)
                await until(again, "q_1", lambda info: info.notifications[0].delivered_at_ms is not None)
            assert len({post.headers["webhook-id"] for post in receiver.posts}) == 1


@pytest.mark.parametrize("status", [301, 307, 404, 410])
async def test_only_success_counts_and_no_redirection_is_followed(tmp_path: Path, status: int) -> None:
    clock = Clock()
    async with ledger_in(tmp_path) as ledger:
        with receiving() as elsewhere, receiving() as receiver:
            receiver.answer = lambda _: (status, {"Location": elsewhere.url})
            inbox = await inbox_of(ledger, clock)
            async with delivering(inbox, clock, hook=webhook(receiver.url, tmp_path, clock)):
                await inbox.ask(question())
                info = await until(inbox, "q_1", lambda info: _tries(info) == 1)
    assert info.notifications[0].fault == f"the server answered {status}"
    assert elsewhere.posts == []


async def test_a_server_that_is_not_there_or_speaks_something_else_is_said(tmp_path: Path) -> None:
    clock = Clock()

    async def serve_nonsense(stream: Any) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"220 mail.example ready\r\n\r\n")

    async with (
        ledger_in(tmp_path) as ledger,
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.start_soon(listener.serve, serve_nonsense)
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            closed = f"http://127.0.0.1:{unused.getsockname()[1]}/"
            inbox = await inbox_of(ledger, clock)
            channels: dict[str, Any] = {
                "closed": webhook(closed, tmp_path, clock),
                "mail": webhook(f"http://127.0.0.1:{port}/", tmp_path, clock),
            }
            async with delivering(inbox, clock, **channels):
                await inbox.ask(question())
                info = await until(inbox, "q_1", lambda info: len(info.notifications) == 2)
        tasks.cancel_scope.cancel()
    faults = {one.channel: one.fault for one in info.notifications}
    assert faults["mail"] == "the server does not speak HTTP/1"
    assert "cannot be reached" in str(faults["closed"])


@pytest.mark.parametrize(
    ("mode", "contents", "words"),
    [(0o644, SECRET, "others may read it"), (0o600, " \n", "holds no secret"), (0o600, "x" * 20_000, "larger than")],
)
async def test_a_secret_that_is_none_is_said_without_a_post(
    tmp_path: Path, mode: int, contents: str, words: str
) -> None:
    clock = Clock()
    (tmp_path / "secret").write_text(contents)
    (tmp_path / "secret").chmod(mode)
    async with ledger_in(tmp_path) as ledger:
        with receiving() as receiver:
            inbox = await inbox_of(ledger, clock)
            async with delivering(inbox, clock, hook=webhook(receiver.url, tmp_path, clock)):
                await inbox.ask(question())
                info = await until(inbox, "q_1", lambda info: bool(info.notifications))
    assert words in str(info.notifications[0].fault)
    assert receiver.posts == []


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    path, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    words = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", *words, *names, "-keyout", str(key), "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + key.read_bytes())
    return path


async def test_over_tls_only_a_server_that_is_trusted_gets_the_message(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    async with ledger_in(tmp_path) as ledger:
        with receiving(certificate) as receiver:
            inbox = await inbox_of(ledger, clock)
            url = receiver.url.replace("http:", "https:")
            async with delivering(inbox, clock, hook=webhook(url, tmp_path, clock)) as deliveries:
                await inbox.ask(question())
                info = await until(inbox, "q_1", lambda info: _tries(info) == 1)
                assert "TLS failed: CERTIFICATE_VERIFY_FAILED" in str(info.notifications[0].fault)
                assert receiver.posts == []
                monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
                clock.now_ms += 5_000
                deliveries.wake()
                post = await next_post(receiver)
                await until(inbox, "q_1", lambda info: info.notifications[0].delivered_at_ms is not None)
    assert is_genuine(post, SECRET.encode())
