"""Commands that look at a running broker: data on stdout, talk on stderr, JSON where it is asked for."""

import os
import signal
from pathlib import Path

import apsw
import pytest

from lifebus_transports.runtime_dir import ensure_private_directory, hold_lock
from support.command_line import Shell, broker_up


def test_status_shows_how_the_broker_is(bus: Shell) -> None:
    ran = bus.run("status", smoke=True)
    assert (ran.code, ran.err) == (0, "")
    assert "running" in ran.out
    found = bus.call("status", "--json").json
    assert found["ledger"]["durability"] == "full"
    assert found["ledger"]["head"] >= 4
    assert (found["retention"]["keep_days"], found["retention"]["last"]) == (30, None)
    assert "30 d; 1.0 GiB" in ran.out


def test_sessions_lists_every_session_with_its_last_receipt(bus: Shell) -> None:
    found = {one["harness_session_id"]: one for one in bus.call("sessions", "--json").json}
    assert (found["s1"]["receipts"], found["s1"]["ended"], found["s1"]["sequence"]) == (3, True, 3)
    assert found["s2"]["last_status"] == "failed"
    text = bus.call("sessions").out
    assert text.splitlines()[0].split()[:2] == ["session", "harness"]
    assert {line.split()[-1] for line in text.splitlines()[1:]} == {"codex/s1", "codex/s2"}
    assert "│" not in text
    assert "─" not in text


def test_sessions_of_one_that_does_not_exist_is_a_negative_answer(bus: Shell) -> None:
    assert bus.call("sessions", "codex/s1", "--json").code == 0
    ran = bus.call("sessions", "codex/none", "--json")
    assert (ran.code, ran.json) == (1, [])


def test_clients_is_empty_without_callback_clients(bus: Shell) -> None:
    assert bus.call("clients", "--json").json == []
    ran = bus.call("clients")
    assert (ran.code, ran.out) == (0, "")
    assert "no callback client" in ran.err


def test_receipts_lists_the_newest_and_filters(bus: Shell) -> None:
    assert [line["receipt"]["event"] for line in bus.call("receipts", "-n", "2", "--json").lines] == [
        "session.started",
        "session.ended",
    ]
    failed = bus.call("receipts", "--status", "failed", "--json").lines
    assert [line["receipt"]["failure_class"] for line in failed] == ["capability_unsupported"]
    assert len(bus.call("receipts", "list", "--session", "codex/s1", "--json").lines) == 3
    assert len(bus.call("receipts", "--since", "1h", "--json").lines) == 4
    assert bus.call("receipts", "--event", "context.compacted", "--json").out == ""


def test_a_receipt_is_shown_by_position_and_by_id(bus: Shell) -> None:
    first = bus.call("receipts", "show", "1", "--json")
    receipt = first.json
    assert receipt["event"] == "session.started"
    assert bus.call("receipts", "show", receipt["receipt_id"], "--json").out == first.out
    assert bus.call("receipts", "show", "1").json == receipt
    assert bus.call("receipts", "show", "999").code == 1
    assert bus.call("receipts", "show", "lfr_none").code == 1


def test_export_is_the_canonical_receipts_and_verify_finds_the_chain_sound(bus: Shell) -> None:
    exported = bus.call("receipts", "export")
    assert [line["sequence"] for line in exported.lines] == [1, 2, 1, 3]
    assert exported.out.splitlines()[0] + "\n" == bus.call("receipts", "show", "1", "--json").out
    verified = bus.call("receipts", "verify", "--json")
    assert (verified.code, verified.json["faults"]) == (0, [])
    assert bus.call("receipts", "verify", "--tail", "2").code == 0


def test_without_a_broker_the_ledger_file_is_exported_and_verified(alone: Shell) -> None:
    with broker_up(alone):
        alone.call("emit", "session.started", "--adapter", "codex", "--session", "s")
        online = alone.call("receipts", "export").out
    offline = alone.call("receipts", "export")
    assert (offline.code, offline.out) == (0, online)
    assert "no broker answers" in offline.err
    assert alone.call("receipts", "verify", "--json").json == {"head": 1, "faults": []}


def test_verify_finds_a_changed_receipt(alone: Shell) -> None:
    with broker_up(alone):
        alone.call("emit", "session.started", "--adapter", "codex", "--session", "s")
    path = str(alone.directory / "state/ledger.db")
    with apsw.Connection(path) as connection:
        connection.execute(
            "UPDATE rows SET receipt = CAST(replace(receipt, 'observed', 'skipped') AS BLOB) WHERE position = 1"
        )
    ran = alone.call("receipts", "verify", "--json")
    assert ran.code == 1
    assert ran.json["faults"]


def test_a_ledger_that_is_no_ledger_is_an_io_error(alone: Shell) -> None:
    (alone.directory / "state").mkdir()
    (alone.directory / "state/ledger.db").write_bytes(b"not a database, whatever else it may be" * 200)
    ran = alone.call("receipts", "verify")
    assert ran.code == 74
    assert "Traceback" not in ran.err


def test_doctor_gives_evidence_for_each_check_and_a_fix_for_what_is_wrong(bus: Shell, alone: Shell) -> None:
    healthy = bus.call("doctor", "--json")
    assert healthy.code == 0
    names = [finding["check"] for finding in healthy.json]
    assert names == [
        "libraries",
        "settings",
        "state",
        "runtime",
        "hook",
        "spool",
        "broker",
        "stream",
        "ledger",
        "scrub",
        "backup",
        "hooks",
    ]
    assert all(finding["evidence"] for finding in healthy.json)
    ill = alone.call("doctor")
    assert ill.code == 1
    assert "fix: start it: lifebus up" in ill.out


@pytest.mark.parametrize(
    "prepare",
    [
        lambda shell: ((shell.directory / "run").mkdir(), (shell.directory / "run").chmod(0o755)),
        lambda shell: (shell.directory / "run").symlink_to("/tmp"),
        lambda shell: (shell.directory / "run").write_text("a file"),
    ],
)
def test_doctor_names_a_runtime_directory_that_a_broker_would_refuse(alone: Shell, prepare: object) -> None:
    prepare(alone)  # type: ignore[operator]
    found = {finding["check"]: finding for finding in alone.call("doctor", "--json").json}
    assert found["runtime"]["state"] == "bad"
    assert str(alone.directory) in found["runtime"]["evidence"]


def test_doctor_names_the_broker_that_holds_the_directory_and_does_not_answer(alone: Shell) -> None:
    runtime = ensure_private_directory(Path(alone.environment["LIFEBUS_RUNTIME_DIR"]))
    with hold_lock(runtime / "lock"):
        found = {finding["check"]: finding for finding in alone.call("doctor", "--json").json}
    assert f"though process {os.getpid()}, running since" in found["broker"]["evidence"]
    assert "end that process" in found["broker"]["fix"]


def test_doctor_names_wrong_settings_and_goes_no_further(alone: Shell) -> None:
    ran = alone.call("doctor", "--json", LIFEBUS_LEDGER_BACKEND="redis")
    assert ran.code == 1
    assert [finding["check"] for finding in ran.json] == ["libraries", "settings"]


@pytest.mark.parametrize("command", ["status", "sessions", "clients", "tail", "receipts"])
def test_commands_that_need_a_broker_say_that_there_is_none_and_exit_69(alone: Shell, command: str) -> None:
    ran = alone.call(command)
    assert (ran.code, ran.out) == (69, "")
    assert "no broker at" in ran.err
    assert "lifebus up" in ran.err


def test_a_broker_that_hangs_is_unavailable_within_the_timeout(alone: Shell) -> None:
    with broker_up(alone) as up:
        up.process.send_signal(signal.SIGSTOP)
        try:
            ran = alone.call("status", "--timeout", "200ms")
        finally:
            up.process.send_signal(signal.SIGCONT)
        assert (ran.code, ran.out) == (69, "")
        assert "does not answer" in ran.err
