"""Warm workers: asked one thing at a time, and replaced when they misbehave."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgpack
import pytest
from msgspec import structs

from lifebus_contract import (
    BrokerBusy,
    CallbackResponse,
    DispatchEnvelope,
    FailureClass,
    InvalidRequest,
    LifebusError,
    ReceiptStatus,
    RetryClass,
)
from lifebus_transports.processes.fresh import FreshInvoker
from lifebus_transports.processes.once import Commands
from lifebus_transports.processes.spec import CommandSpec
from lifebus_transports.processes.warm import WarmInvoker
from support.bus_box import payload, request
from support.patience import PATIENCE_S
from support.transports.children import nothing_left, python, sh, until

SMALL = DispatchEnvelope(schema_version="lifeloop.v0.2", request=request())
LARGE = DispatchEnvelope(
    schema_version="lifeloop.v0.2", request=request(), payloads=(payload(body="private words " * 8_000),)
)
PACKED = msgpack.packb({"schema_version": "lifeloop.v0.2", "status": "observed"})
LINES = "for line in sys.stdin:\n    print(ANSWER, flush=True)\n"
CHUNKS = f"PACKED = {PACKED!r}\nwhile os.read(0, 1 << 20):\n    os.write(1, PACKED)\n"
REAL = """
import json, sys, msgpack
unpacker = msgpack.Unpacker()
while data := sys.stdin.buffer.raw.read(65536):
    unpacker.feed(data)
    for envelope in unpacker:
        size = sum(len(one["body"]) for one in envelope.get("payloads", ()))
        warning = {"code": "size", "message": str(size)}
        answer = {"schema_version": "lifeloop.v0.2", "status": "observed", "warnings": [warning]}
        sys.stdout.buffer.write(msgpack.packb(answer))
        sys.stdout.buffer.flush()
"""


@asynccontextmanager
async def pool(spec: CommandSpec, protocol: Any = "jsonl", workers: int = 1) -> AsyncIterator[WarmInvoker]:
    """Warm workers, gone with the block."""
    async with nothing_left(), anyio.create_task_group() as tasks:
        yield WarmInvoker(spec, protocol, workers, tasks)
        tasks.cancel_scope.cancel()


async def ask(
    invoker: WarmInvoker | FreshInvoker, envelope: DispatchEnvelope = SMALL, seconds: float = PATIENCE_S
) -> tuple[CallbackResponse | LifebusError, dict[str, Any]]:
    """Return the answer or the fault, and the evidence."""
    evidence: dict[str, Any] = {}
    try:
        with anyio.fail_after(seconds):
            return await invoker.invoke(envelope, evidence), evidence
    except LifebusError as fault:
        return fault, evidence


@pytest.mark.parametrize(
    ("spec", "protocol"),
    [
        (python(LINES), "jsonl"),
        (sh("while read line; do echo; echo ANSWER; done"), "jsonl"),
        (python(CHUNKS), "msgpack"),
        (CommandSpec(argv=(sys.executable, "-c", REAL)), "msgpack"),
    ],
    ids=["python", "sh", "raw msgpack", "msgpack"],
)
async def test_one_worker_answers_many_questions(spec: CommandSpec, protocol: str) -> None:
    async with pool(spec, protocol) as invoker:
        for _ in range(20):
            answer, evidence = await ask(invoker)
            assert isinstance(answer, CallbackResponse), answer
            assert evidence == {}
        assert len(invoker._alive) == 1
        assert {worker.answered for worker in invoker._alive} == {20}


async def test_a_large_question_and_a_large_answer_pass() -> None:
    script = (
        "import json\nfor line in sys.stdin:\n"
        "    body = json.loads(line)['payloads'][0]['body']\n"
        "    note = {'code': 'n', 'message': 'x' * 1000}\n"
        "    print(json.dumps({**json.loads(ANSWER), 'metadata': {'body': body}}), flush=True)\n"
    )
    async with pool(python(script)) as invoker:
        answer, _ = await ask(invoker, LARGE)
        assert isinstance(answer, CallbackResponse), answer
        assert answer.metadata["body"] == LARGE.payloads[0].body
    async with pool(CommandSpec(argv=(sys.executable, "-c", REAL)), "msgpack") as invoker:
        answer, _ = await ask(invoker, LARGE)
        assert isinstance(answer, CallbackResponse), answer
        assert answer.warnings[0].message == "112000"


MISBEHAVING = {
    "garbage": ("print('hello', flush=True)", InvalidRequest, "bad_answer"),
    "not a response": ("print('{}', flush=True)", InvalidRequest, "bad_answer"),
    "a duplicate key": ('print(\'{"status": 1, "status": 2}\', flush=True)', InvalidRequest, "bad_answer"),
    "bytes that are no text": ("os.write(1, bytes([255, 254, 10]))", InvalidRequest, "bad_answer"),
    "two documents": ("print(ANSWER + chr(10) + ANSWER, flush=True)", InvalidRequest, "two_documents"),
    "an end": ("sys.exit(0)", InvalidRequest, "no_answer"),
    "half a line and an end": ("print(ANSWER, end='', flush=True); os._exit(0)", InvalidRequest, "no_answer"),
    "a failure": ("os._exit(3)", LifebusError, "exit_code"),
    "a signal": ("os.kill(os.getpid(), signal.SIGSEGV)", LifebusError, "killed"),
    "a flood": ("os.write(1, b'x' * 300000); time.sleep(60)", InvalidRequest, "too_large"),
    "a flood in a line": ("os.write(1, b'x' * 300000 + b'\\n'); time.sleep(60)", InvalidRequest, "too_large"),
}


@pytest.mark.parametrize("name", MISBEHAVING)
async def test_a_worker_that_misbehaves_has_its_failure_and_a_successor(name: str) -> None:
    script, kind, code = MISBEHAVING[name]
    async with pool(python(f"for line in sys.stdin:\n    print('asked', file=sys.stderr)\n    {script}\n")) as invoker:
        for _ in range(2):
            fault, evidence = await ask(invoker)
            assert isinstance(fault, kind)
            assert fault.code == code
            assert evidence["stderr"] == "asked"
        assert evidence.get("exit_code") == {"failure": 3, "exit_code": 3, "no_answer": 0}.get(code)


MISBEHAVING_MSGPACK = {
    "text": ("os.write(1, b'hello')", "bad_answer"),
    "an extension": ("os.write(1, bytes([0xd4, 1, 1]))", "bad_answer"),
    "a byte that means nothing": ("os.write(1, bytes([0xc1]))", "bad_answer"),
    "a duplicate key": ("os.write(1, b'\\x82\\xa1a\\x01\\xa1a\\x02')", "bad_answer"),
    "a number as a key": ("os.write(1, b'\\x81\\x01\\x01')", "bad_answer"),
    "a deep nest": ("os.write(1, b'\\x91' * 5000)", "bad_answer"),
    "a length beyond all": ("os.write(1, b'\\xdd\\xff\\xff\\xff\\xff')", "bad_answer"),
    "two documents": ("os.write(1, PACKED + PACKED)", "two_documents"),
    "a flood": ("os.write(1, b'\\xdb\\x00\\x0f\\xff\\xff' + b'x' * 300000)", "too_large"),
    "an end": ("os._exit(0)", "no_answer"),
}


@pytest.mark.parametrize("name", MISBEHAVING_MSGPACK)
async def test_nonsense_in_messagepack_is_a_bad_answer(name: str) -> None:
    script, code = MISBEHAVING_MSGPACK[name]
    spec = python(f"PACKED = {PACKED!r}\nwhile os.read(0, 1 << 20):\n    {script}\n    time.sleep(60)\n")
    async with pool(spec, "msgpack") as invoker:
        fault, _ = await ask(invoker)
        assert isinstance(fault, LifebusError)
        assert fault.code == code


async def test_what_nobody_asked_for_ends_a_worker() -> None:
    # It reads no question: nobody could tell an answer that was written just before from one that was asked for.
    async with pool(python("print(ANSWER, flush=True); time.sleep(60)")) as invoker:
        await until(lambda: invoker._down is not None)
        assert invoker._down is not None
        assert invoker._down.code == "unasked"
        fault, _ = await ask(invoker)
        assert isinstance(fault, InvalidRequest)


async def test_an_answer_to_a_question_that_was_not_read_is_unasked() -> None:
    async with pool(python("time.sleep(0.3); print(ANSWER, flush=True); time.sleep(60)")) as invoker:
        fault, _ = await ask(invoker, LARGE)
        assert isinstance(fault, InvalidRequest)
        assert fault.code == "unasked"


async def test_a_second_answer_that_comes_later_is_no_answer_to_the_next_question() -> None:
    script = (  # the second answer comes when the next question is there, and before that is read
        "import select\n"
        "while os.read(0, 1 << 20):\n"
        "    print(ANSWER, flush=True)\n"
        "    select.select([0], [], [])\n"
        "    print(ANSWER, flush=True); time.sleep(60)\n"
    )
    async with pool(python(script)) as invoker:
        codes = list[str | None]()
        for _ in range(6):
            answer, _ = await ask(invoker)
            codes.append(answer.code if isinstance(answer, LifebusError) else None)
        assert codes == 3 * [None, "unasked"]


async def test_a_worker_that_misses_a_deadline_is_replaced_and_its_late_answer_lost() -> None:
    script = (
        "import json\nfor line in sys.stdin:\n"
        "    if json.loads(line)['request']['event_id'] == 'slow':\n        time.sleep(60)\n"
        "    print(ANSWER, flush=True)\n"
    )
    slow = DispatchEnvelope(schema_version="lifeloop.v0.2", request=request(event_id="slow"))
    async with pool(python(script)) as invoker:
        assert isinstance((await ask(invoker))[0], CallbackResponse)
        with pytest.raises(TimeoutError):
            await ask(invoker, slow, 0.1)
        assert isinstance((await ask(invoker))[0], CallbackResponse)


async def test_a_command_that_cannot_be_started_is_reported_at_once() -> None:
    async with pool(CommandSpec(argv=("/no/such/program",)), workers=3) as invoker:
        for _ in range(2):
            fault, _ = await ask(invoker)
            assert isinstance(fault, LifebusError)
            assert (fault.code, fault.failure_class) == ("spawn", FailureClass.TRANSPORT_ERROR)
            assert fault.retry_class is RetryClass.RETRY_AFTER_RECONFIGURE


async def test_workers_that_end_at_once_are_not_started_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lifebus_transports.processes.warm._FIRST_PAUSE_S", 60)
    monkeypatch.setattr("lifebus_transports.processes.warm._LONGEST_PAUSE_S", 60)
    starts = tmp_path / "starts"
    async with pool(sh(f"echo >> {starts}; exit 4")) as invoker:
        await until(lambda: starts.exists() and len(starts.read_text()) == 2 and not invoker._alive)
        fault, _ = await ask(invoker)
        assert isinstance(fault, LifebusError)
        assert fault.code == "exit_code"
    assert len(starts.read_text()) == 2


async def test_several_workers_work_at_the_same_time_and_the_rest_waits(tmp_path: Path) -> None:
    script = (
        "import pathlib\nfor line in sys.stdin:\n"
        "    pathlib.Path(sys.argv[1], str(os.getpid())).touch()\n"
        "    while len(os.listdir(sys.argv[1])) < 2: time.sleep(0.01)\n"
        "    print(ANSWER, flush=True)\n"
    )
    with anyio.fail_after(PATIENCE_S):
        spec = python(script)
        spec = CommandSpec(argv=(*spec.argv, str(tmp_path)))
        async with pool(spec, workers=2) as invoker:
            found: list[object] = []

            async def question() -> None:
                found.append((await ask(invoker))[0])

            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(question)
    assert [type(one) for one in found] == 5 * [CallbackResponse]


@pytest.mark.parametrize("kind", ["fresh", "warm"])
async def test_only_so_many_may_wait(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("lifebus_transports.processes.pool.MOST_WAITING", 1)
    async with nothing_left(), anyio.create_task_group() as tasks:
        spec = sh("sleep 60")
        invoker = FreshInvoker(spec, 1, Commands(tasks)) if kind == "fresh" else WarmInvoker(spec, "jsonl", 1, tasks)
        for _ in range(2):
            tasks.start_soon(ask, invoker)
        await anyio.wait_all_tasks_blocked()
        fault, _ = await ask(invoker)
        assert isinstance(fault, BrokerBusy)
        tasks.cancel_scope.cancel()


async def test_who_gives_up_waiting_leaves_the_worker_to_others() -> None:
    async with pool(python("for line in sys.stdin:\n    time.sleep(0.3)\n    print(ANSWER, flush=True)\n")) as invoker:
        answers: list[object] = []

        async def patient() -> None:
            answers.append((await ask(invoker))[0])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(patient)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(TimeoutError):
                await ask(invoker, seconds=0.05)
        assert isinstance((await ask(invoker))[0], CallbackResponse)
    assert isinstance(answers[0], CallbackResponse)


async def test_what_a_worker_says_on_stderr_belongs_to_the_question_it_was_asked() -> None:
    script = (
        "import json\nfor line in sys.stdin:\n    asked = json.loads(line)\n"
        "    bodies = [one['body'] for one in asked.get('payloads', ())]\n"
        "    print(asked['request']['event_id'], *bodies, file=sys.stderr)\n"
        "    print(ANSWER, flush=True)\n"
    )
    telling = structs.replace(SMALL, payloads=(payload(body="words that are nobody's business"),))
    async with pool(python(script)) as invoker:
        _, first = await ask(invoker)
        _, second = await ask(invoker, telling)
    assert first == {"stderr": SMALL.request.event_id}
    assert second == {"stderr": f"{telling.request.event_id} [redacted]"}


async def test_a_fresh_child_answers_a_dispatch_and_its_exit_code_is_evidence() -> None:
    async with nothing_left(), anyio.create_task_group() as tasks:
        invoker = FreshInvoker(
            python("sys.stdin.read(); print(ANSWER); print('ok', file=sys.stderr)"), 1, Commands(tasks)
        )
        for envelope in (SMALL, LARGE):
            answer, evidence = await ask(invoker, envelope)
            assert isinstance(answer, CallbackResponse), answer
            assert answer.status is ReceiptStatus.OBSERVED
            assert evidence == {"exit_code": 0, "stderr": "ok"}


FRESH = {
    "garbage": ("echo hello", "bad_answer"),
    "nothing": ("true", "no_answer"),
    "blanks": ("echo; echo", "no_answer"),
    "two documents": ("echo ANSWER; echo ANSWER", "two_documents"),
    "two documents in a line": ("printf %s%s ANSWER ANSWER", "two_documents"),
    "a document and garbage": ("echo ANSWER; echo hello", "bad_answer"),
    "no response": ("echo '{}'", "bad_answer"),
    "a list": ("echo '[]'", "bad_answer"),
    "a document that is not strict": ("echo '{\"status\":NaN}'", "bad_answer"),
}


@pytest.mark.parametrize("name", FRESH)
async def test_a_fresh_child_that_answers_nonsense_has_its_code(name: str) -> None:
    script, code = FRESH[name]
    async with nothing_left(), anyio.create_task_group() as tasks:
        fault, evidence = await ask(FreshInvoker(sh(f"cat >/dev/null; {script}"), 1, Commands(tasks)))
    assert isinstance(fault, InvalidRequest)
    assert fault.code == code
    assert evidence == {"exit_code": 0}


async def test_an_answer_with_a_held_pipe_carries_a_warning() -> None:
    async with nothing_left(), anyio.create_task_group() as tasks:
        invoker = FreshInvoker(sh("cat >/dev/null; echo ANSWER; sleep 60 &"), 1, Commands(tasks))
        answer, _ = await ask(invoker)
    assert isinstance(answer, CallbackResponse)
    assert [warning.code for warning in answer.warnings] == ["pipe_held"]
