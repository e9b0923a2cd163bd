"""The hook with a broker that is up: what it sends, and what it does with the answer."""

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lifebus_transports.framing.hook_frames import MAX_STDIN_BYTES, CallMessage
from support.clients.hook_box import COMMAND, PATIENT_COMMAND, HookBox, answering, scripted_broker
from support.clients.proxy_box import eventually
from support.patience import PATIENCE_S


def by_shell(box: HookBox, command: str, **options: Any) -> "subprocess.CompletedProcess[bytes]":
    """Run the hook by a shell command, in which it is `$@`."""
    words = ["sh", "-c", command, "sh", *COMMAND]
    return subprocess.run(words, env=box.env, check=False, timeout=PATIENCE_S, **options)


def test_stdout_of_the_answer_is_printed_byte_for_byte(box: HookBox) -> None:
    text = '{"hookSpecificOutput":{"additionalContext":"žluť\\n"}}'.encode() + b"\x00\xff"
    with scripted_broker(box, answering(b"0 %d\n%b" % (len(text), text))):
        run = box.answered()
    assert (run.code, run.stdout, run.stderr) == (0, text, b"")
    assert box.spooled() == []


def test_an_answer_larger_than_a_pipe_is_printed_whole(box: HookBox) -> None:
    text = b"x" * 300_000
    box.command = PATIENT_COMMAND  # the other one prints for as long as it has time
    with scripted_broker(box, answering(b"0 %d\n%b" % (len(text), text))):
        assert box.run().stdout == text


@pytest.mark.parametrize("code", [0, 1, 2, 255])
def test_the_exit_code_is_the_one_the_broker_answers(box: HookBox, code: int) -> None:
    with scripted_broker(box, answering(b"%d 2\nno" % code)):
        run = box.answered()
    assert (run.code, run.stdout) == (code, b"no")


def test_stdin_and_names_arrive_verbatim(box: HookBox) -> None:
    calls: list[CallMessage] = []
    payload = b'{"session_id":"s1"}\n\x00\xff not even JSON'
    with scripted_broker(box, answering(b"0 0\n", calls)):
        box.answered(payload, "claude", "PreToolUse", cwd=box.base)
        first = calls[-1].call
        box.answered(payload, "claude")
        second = calls[-1].call
    assert (first.adapter_id, first.hook, first.stdin) == ("claude", "PreToolUse", payload)
    assert (first.cwd, first.spooled_at_epoch_s) == (str(box.base), None)
    assert second.hook == ""
    assert first.call_id != second.call_id
    assert {frame.header.pid for frame in calls} == {os.getpid()}


def test_only_selected_variables_travel(box: HookBox) -> None:
    calls: list[CallMessage] = []
    wanted = {"CLAUDE_CODE_SESSION_ID": 's"1\\', "CODEX_HOME": "/home/dev/.codex", "GEMINI_SESSION_ID": "ž"}
    secret = {"ANTHROPIC_API_KEY": "sk-secret", "GEMINI_API_KEY": "secret", "CLAUDE_CODE_OAUTH_TOKEN": "secret"}
    box.extra = {**wanted, **secret, "HERMES_HOME": "x" * 5000, "CLAUDE_PROJECT_DIR": ""}
    with scripted_broker(box, answering(b"0 0\n", calls)):
        box.answered()
    assert calls[-1].header.env == wanted


def test_a_working_directory_that_is_no_text_does_not_lose_the_call(box: HookBox) -> None:
    odd = Path(os.fsdecode(os.fsencode(box.base) + b"/odd-\xff\n"))
    odd.mkdir()
    calls: list[CallMessage] = []
    with scripted_broker(box, answering(b"0 0\n", calls)):
        box.answered(cwd=odd)
    assert calls[-1].header.cwd.endswith("/odd-\ufffd\n")


def test_a_working_directory_that_is_gone_is_left_out(box: HookBox) -> None:
    calls: list[CallMessage] = []
    gone = box.base / "gone"
    with scripted_broker(box, answering(b"0 0\n", calls)):
        command = f'mkdir -p "{gone}" && cd "{gone}" && rmdir "{gone}" && exec "$@" codex Stop'
        box.in_time(lambda: by_shell(box, command, input=b"{}"))
    assert calls[-1].header.cwd == ""


def test_the_header_stays_within_its_limit_by_leaving_things_out(box: HookBox) -> None:
    calls: list[CallMessage] = []
    box.extra = dict.fromkeys(("CODEX_HOME", "HERMES_HOME", "GEMINI_CWD"), "\x01" * 3000)
    with scripted_broker(box, answering(b"0 0\n", calls)):
        box.answered(b"payload")
    assert (calls[-1].header.env, calls[-1].header.cwd, calls[-1].stdin) == ({}, "", b"payload")


def test_the_largest_payload_travels_whole(box: HookBox) -> None:
    calls: list[CallMessage] = []
    payload = os.urandom(MAX_STDIN_BYTES)
    with scripted_broker(box, answering(b"0 0\n", calls)):
        box.answered(payload)
    assert calls[-1].stdin == payload


@pytest.mark.parametrize("size", [MAX_STDIN_BYTES + 1, 3 * MAX_STDIN_BYTES])
def test_of_a_larger_payload_only_the_size_travels(box: HookBox, size: int) -> None:
    calls: list[CallMessage] = []
    with scripted_broker(box, answering(b"0 0\n", calls)):
        run = box.answered(b"x" * size)
    assert (run.code, run.stdout) == (0, b"")
    assert (calls[-1].stdin, calls[-1].header.size, calls[-1].header.oversized) == (b"", 0, size)


def test_a_closed_stdin_is_an_empty_payload(box: HookBox) -> None:
    calls: list[CallMessage] = []
    with scripted_broker(box, answering(b"2 2\nno", calls)):
        run = box.in_time(lambda: by_shell(box, 'exec "$@" codex Stop <&-', capture_output=True))
    assert (run.returncode, run.stdout, calls[-1].stdin) == (2, b"no", b"")


@pytest.mark.parametrize("closing", [">&-", "<&- >&- 2>&-"])
def test_a_closed_stdout_changes_nothing_but_the_output(box: HookBox, closing: str) -> None:
    calls: list[CallMessage] = []
    with scripted_broker(box, answering(b"2 2\nno", calls)):
        command = f'exec "$@" codex Stop {closing}'
        run = box.in_time(lambda: by_shell(box, command))
    assert run.returncode == 2
    assert calls
    assert box.spooled() == []


def test_a_harness_that_does_not_read_stdout_is_not_waited_for(box: HookBox) -> None:
    text = b"x" * 300_000
    with scripted_broker(box, answering(b"2 %d\n%b" % (len(text), text))), ExitStack() as stack:

        def run_unread() -> int:
            hook = stack.enter_context(box.start("codex", "Stop", stdin=subprocess.DEVNULL))
            return hook.wait(PATIENCE_S)

        assert box.in_time(run_unread) == 2
    assert box.spooled() == []


def test_twenty_hooks_at_once_all_get_their_answer(box: HookBox) -> None:
    calls: list[CallMessage] = []
    with scripted_broker(box, answering(b"0 2\nok", calls)):
        hooks = box.start_many(20, b"{}")
        outputs = [hook.communicate(timeout=PATIENCE_S)[0] for hook in hooks]
    names = {f"Hook{number}" for number in range(20)}
    # One for which the machine is too slow is in the spool, and may come there when its harness has gone on.
    eventually(lambda: {one.header.hook for one in calls} | {one.hook for one in box.spooled()} == names)
    assert all(output in (b"ok", b"") for output in outputs)
    assert [hook.returncode for hook in hooks] == [0] * 20
