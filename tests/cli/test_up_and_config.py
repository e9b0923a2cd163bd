"""`lifebus up` and `lifebus config`: starting, stopping, refusing to start, and where a setting came from."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from support.command_line import Shell, broker_up
from support.ignored_signals import ignoring


def test_it_starts_logs_in_json_and_stops_in_order(alone: Shell) -> None:
    with broker_up(alone, smoke=True) as up:
        assert alone.call("status").code == 0
        assert up.stop() == 0
    events = [json.loads(line)["event"] for line in up.log]
    assert events[0] == "ready"
    assert "stopping" in events
    assert alone.call("status").code == 69


def test_ctrl_c_stops_it_in_order_too(alone: Shell) -> None:
    with broker_up(alone, smoke=True) as up:
        up.process.send_signal(signal.SIGINT)
        assert up.wait() == 0


def test_in_the_background_and_under_nohup_it_ends_by_sigterm_alone(alone: Shell) -> None:
    with ignoring(signal.SIGINT, signal.SIGHUP), broker_up(alone, smoke=True) as up:
        for number in (signal.SIGINT, signal.SIGHUP):
            up.process.send_signal(number)
        assert alone.call("status").code == 0
        assert up.stop() == 0
    events = [json.loads(line) for line in up.log]
    assert [event["signal"] for event in events if event["event"] == "stopping"] == ["SIGTERM"]


def test_it_writes_nothing_to_stdout(alone: Shell) -> None:
    with broker_up(alone, smoke=True) as up:
        up.stop()
    assert up.out == b""


def test_a_second_one_says_who_holds_the_directory_and_exits_69(alone: Shell) -> None:
    with broker_up(alone, smoke=True) as up:
        ran = alone.call("up")
        assert (ran.code, ran.out) == (69, "")
        assert f"process {up.process.pid}" in ran.err
        assert alone.call("status").code == 0


def test_flags_win_over_the_environment(alone: Shell) -> None:
    other = str(alone.directory / "other")
    with broker_up(alone, "--runtime-dir", other, "--ledger-backend", "memory"):
        found = alone.call("status", "--json", "--runtime-dir", other).json
        assert (found["ledger"]["backend"], found["runtime_dir"]) == ("memory", other)
        shown = alone.call("status", LIFEBUS_RUNTIME_DIR=other)
        assert shown.code == 0
        assert "lacking   no sequences, no snapshots, no retention by the settings" in shown.out


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"LIFEBUS_LEDGER_BACKEND": "redis"}, "one of sqlite, memory"),
        ({"LIFEBUS_CONFIG": "/nonexistent.toml"}, "unset the variable, or name /dev/null"),
        ({"LIFEBUS_MANIFESTS": "/nonexistent.json"}, "No such file"),
        ({"LIFEBUS_RUNTIME_DIR": "/tmp/" + "x" * 120}, "socket path"),
        ({"LIFEBUS_RUNTIME_DIR": "/proc/nothing"}, "cannot"),
        ({"LIFEBUS_LOG_LEVLE": "debug"}, "did you mean LIFEBUS_LOG_LEVEL"),
    ],
)
def test_it_refuses_wrong_settings_with_78_and_a_sentence(alone: Shell, variables: dict[str, Any], said: str) -> None:
    ran = alone.call("up", **variables)
    assert (ran.code, ran.out) == (78, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_it_refuses_a_damaged_ledger_with_74(alone: Shell) -> None:
    (alone.directory / "state").mkdir(mode=0o700)
    (alone.directory / "state/ledger.db").write_bytes(b"no ledger at all, but long enough to be looked at " * 100)
    ran = alone.call("up")
    assert ran.code == 74
    assert "ledger.db" in ran.err
    assert "Traceback" not in ran.err


def test_config_show_names_the_origin_and_what_it_won_over(alone: Shell, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[log]\nlevel = "debug"\n')
    variables: dict[str, Any] = {"LIFEBUS_CONFIG": str(file), "LIFEBUS_LOG_LEVEL": "error"}
    found = alone.call("config", "show", "--origin", "--json", **variables).json["log.level"]
    assert (found["value"], found["source"], found["where"]) == ("error", "environment", "LIFEBUS_LOG_LEVEL")
    assert [(one["value"], one["where"]) for one in found["overridden"]] == [
        ("debug", f"{file}:2"),
        ("info", "built in"),
    ]
    assert f"{file}:2" in alone.call("config", "show", "--origin", **variables).out
    assert alone.call("config", "--json").json["ledger.backend"] == "sqlite"


def test_config_check_is_0_or_78(alone: Shell, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[limits]\nbackfills = 2\n")
    good = alone.call("config", "check", str(file))
    assert (good.code, good.out.startswith("valid: ")) == (0, True)
    file.write_text("[limits]\nbackfils = 2\nbeacon_ms = 'x'\n")
    bad = alone.call("config", "check", str(file))
    assert (bad.code, bad.out) == (78, "")
    assert f"{file}:2" in bad.err
    assert "did you mean `limits.backfills`?" in bad.err
    assert f"{file}:3" in bad.err
