"""What the end of a program means for its job, also where only its shim saw it."""

from pathlib import Path

import pytest

from lifebus_contract.flows import Outcome, OutcomeKind
from lifebus_supervisor.queue.command_jobs import end_of, recovered_end
from lifebus_supervisor.queue.rules.attempts import AttemptEnd

EXITED = Outcome(kind=OutcomeKind.EXITED, code=0)


@pytest.mark.parametrize(
    ("written", "result"),
    [
        (b"", None),
        (b"\n \n", None),
        (b'noise\n{"x": 1}\n\n', {"x": 1}),
        (b"[1, 2]", [1, 2]),
        (b'progress\r"done"', "done"),
        (b"x" * 200_000 + b"\n7\n", 7),
    ],
)
def test_the_last_line_is_the_result(tmp_path: Path, written: bytes, result: object) -> None:
    (tmp_path / "1.out").write_bytes(written)
    assert end_of(EXITED, "", tmp_path / "1.out") == AttemptEnd(result=result)


@pytest.mark.parametrize("written", [b"not json\n", b"x" * 60_000, b'"' + b"x" * 60_000 + b'"'])
def test_a_last_line_that_is_no_result_is_a_failure_for_good(tmp_path: Path, written: bytes) -> None:
    (tmp_path / "1.out").write_bytes(written)
    end = end_of(EXITED, "", tmp_path / "1.out")
    assert end.error is not None
    assert not end.retryable


@pytest.mark.parametrize(
    ("code", "retryable"), [(1, True), (64, False), (74, False), (75, True), (78, False), (79, True), (130, True)]
)
def test_exit_codes_of_sysexits_are_final_but_for_the_temporary_one(tmp_path: Path, code: int, retryable: bool) -> None:
    end = end_of(Outcome(kind=OutcomeKind.EXITED, code=code), "said", tmp_path / "1.out")
    assert end == AttemptEnd(error=f"the program ended with exit code {code}: said", retryable=retryable)


@pytest.mark.parametrize(
    ("recorded", "written", "end"),
    [
        (None, b"1\n", None),
        (b"{", b"1\n", None),
        (b'{"status": 0, "asked": false}', b"1\n", AttemptEnd(result=1)),
        (b'{"status": 0, "asked": false}', b"", AttemptEnd()),
        (b'{"status": 0, "asked": true}', b"1\n", AttemptEnd(result=1)),
        (b'{"status": 0, "asked": true}', b"", None),
        (b'{"status": 0, "asked": true}', b"half a line", None),
        (b'{"status": -15, "asked": true}', b"1\n", None),
        (b'{"status": 70, "asked": false}', b"", AttemptEnd(error="the program ended with exit code 70")),
    ],
)
def test_after_a_kill_only_what_surely_ended_has_ended(
    tmp_path: Path, recorded: bytes | None, written: bytes, end: AttemptEnd | None
) -> None:
    (tmp_path / "1.out").write_bytes(written)
    if recorded is not None:
        (tmp_path / "1.end").write_bytes(recorded)
    assert recovered_end(tmp_path / "1") == end
