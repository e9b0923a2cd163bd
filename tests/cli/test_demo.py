"""The demonstration proves what it claims, and its proof can fail."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from lifebus._internal.view import Gap
from lifebus.demo.checks import RecordedReceipt, check_facts, check_follower, check_hooks, check_sequences
from lifebus.demo.participants import DemoFollower
from lifebus.demo.replay import HARNESSES, HookResult, load_recordings, sessions_of
from lifebus_contract import CONTRACT_VERSION, Receipt, validate
from support.command_line import Shell
from support.patience import PATIENCE_S
from support.running import short_directory


def test_every_session_of_the_demonstration_ends() -> None:
    ends = {"codex": "SessionEnd", "claude": "SessionEnd", "gemini": "SessionEnd"}
    for recording in load_recordings():
        last = {step.session: step.hook for step in recording.steps}
        assert set(last.values()) == {ends[recording.adapter]}


def recorded(position: int, session: str, sequence: int | None, **fields: Any) -> RecordedReceipt:
    plain = {
        **dict.fromkeys(("failure_class", "harness_run_id", "harness_task_id", "idempotency_key"), None),
        **dict.fromkeys(("parent_receipt_id", "retry_class"), None),
        **dict.fromkeys(("capability_degradations", "payload_receipts", "warnings"), ()),
        "adapter_id": "codex",
        "at_epoch_s": 1,
        "client_id": "c",
        "event": "session.started",
        "event_id": "evt_1",
        "harness_session_id": session,
        "integration_mode": "native_hook",
        "invocation_id": "inv_1",
        "receipt_id": f"lfr_{position}",
        "schema_version": CONTRACT_VERSION,
        "sequence": sequence,
        "status": "observed",
        "telemetry_summary": {},
        **fields,
    }
    return RecordedReceipt(position, validate(plain, Receipt))


RECEIPTS = [recorded(1, "a", 1), recorded(2, "b", 1), recorded(3, "a", 2)]


def follower(*seen: int, session: tuple[str, str] | None = None) -> DemoFollower:
    found = DemoFollower("f", session)
    found.seen = [(position, f"lfr_{position}") for position in seen]
    return found


def test_a_follower_that_saw_everything_once_in_order_holds() -> None:
    assert check_follower(RECEIPTS, follower(1, 2, 3)).holds
    assert check_follower(RECEIPTS, follower(1, 3, session=("codex", "a"))).holds


@pytest.mark.parametrize("seen", [(), (1, 2), (1, 3), (2, 1, 3), (1, 2, 2, 3), (1, 2, 3, 4)])
def test_a_loss_a_double_a_swap_and_a_surplus_are_found(seen: tuple[int, ...]) -> None:
    check = check_follower(RECEIPTS, follower(*seen))
    assert not check.holds
    assert "the ledger has 3" in check.text


def test_a_gap_and_a_late_follower_that_was_never_late_do_not_hold() -> None:
    with_gap = follower(1, 2, 3)
    with_gap.gaps.append(Gap(epoch="e", after=0, until=1, reason="pruned"))
    never_late = follower(1, 2, 3)
    never_late.behind = 0
    assert not check_follower(RECEIPTS, with_gap).holds
    assert not check_follower(RECEIPTS, never_late).holds


def test_a_hole_in_a_sequence_or_in_the_positions_is_found() -> None:
    assert check_sequences(RECEIPTS).holds
    assert not check_sequences([recorded(1, "a", 1), recorded(2, "a", 3)]).holds
    assert not check_sequences([recorded(1, "a", 1), recorded(3, "a", 2)]).holds
    assert not check_sequences([recorded(1, "a", None)]).holds
    assert not check_sequences([]).holds


def test_hooks_must_all_have_run_and_hurt_nobody_and_carried_the_payload() -> None:
    good = HookResult("codex", "SessionStart", 0, b"Remember: the tests run with `make test`.")
    assert [check.holds for check in check_hooks([good], 1, 0)] == [True, True]
    assert [check.holds for check in check_hooks([good], 2, 0)] == [False, True]
    assert [check.holds for check in check_hooks([HookResult("codex", "Stop", 2, b"")], 1, 0)] == [False, False]


def test_degradation_and_refusal_must_be_there_and_the_refused_client_must_not_have_run() -> None:
    refused = recorded(5, "a", 4, status="failed", failure_class="capability_unsupported", client_id="demands")
    facts = [recorded(4, "a", 3, status="degraded"), refused]
    assert [check.holds for check in check_facts(facts, ["other"])] == [True, True]
    assert [check.holds for check in check_facts(facts, ["demands"])] == [True, False]
    assert [check.holds for check in check_facts(RECEIPTS, [])] == [False, False]


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A directory for temporary files, short enough for the demo's sockets in it."""
    with short_directory() as path:
        yield path


def test_recordings_of_three_harnesses_are_shipped() -> None:
    recordings = load_recordings()
    assert {recording.adapter for recording in recordings} == set(HARNESSES)
    assert len(sessions_of(recordings)) >= 3


def test_demo_check_proves_every_claim_and_leaves_nothing_behind(alone: Shell, temporary: Path) -> None:
    ran = alone.call("demo", "--check", TMPDIR=str(temporary))
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert all(line.startswith("ok ") for line in lines)
    names = {line.split()[1].rstrip(":") for line in lines}
    assert {"everything", "late", "sequences", "chain", "hooks", "payload", "degradation", "refusal", "broker"} <= names
    assert list(temporary.iterdir()) == []
    assert not (alone.directory / "state").exists()


def test_the_demo_shows_its_table_in_80_columns_and_says_what_to_type_next(alone: Shell) -> None:
    ran = alone.on_terminal("demo", "--speed", "1000", variables={"NO_COLOR": "1", "TERM": "dumb"})
    lines = ran.out.replace("\r\n", "\n").splitlines()
    assert ran.code == 0
    assert any(line.split() == ["session", "seq", "event", "status", "note"] for line in lines)
    assert any("failed" in line and "capability_unsupported" in line for line in lines)
    assert any("Remember: the tests run" in line for line in lines)
    assert "What is proved" in lines
    assert any("lifebus up" in line for line in lines)


def test_in_a_pipe_the_demo_prints_plain_lines(alone: Shell) -> None:
    ran = alone.call("demo", "--speed", "1000")
    assert (ran.code, ran.err) == (0, "")
    assert "\x1b" not in ran.out
    assert "→ developer_equivalent_frame" in ran.out


def test_ctrl_c_ends_the_demo_its_broker_and_its_directory(alone: Shell, temporary: Path) -> None:
    environment = {**alone.environment, "TMPDIR": str(temporary)}
    with alone.started("demo", "--speed", "0.1", environment=environment) as process:
        assert process.stdout is not None
        shown = iter(process.stdout.readline, b"")
        broker = next(int(line.split()[2].rstrip(b",")) for line in shown if line.startswith(b"broker: process"))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert not psutil.pid_exists(broker)
    assert list(temporary.iterdir()) == []


def test_a_reader_that_goes_away_ends_the_demo_quietly(alone: Shell, temporary: Path) -> None:
    environment = {**alone.environment, "TMPDIR": str(temporary)}
    with alone.started("demo", "--speed", "1000", environment=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.stdout = None
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (141, b"")
    assert list(temporary.iterdir()) == []
