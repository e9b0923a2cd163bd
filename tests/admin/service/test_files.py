"""What is written for systemd and launchd, read by their own tools, and what their answers mean."""

import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lifebus_admin.service.definition import ServiceDefinition, define_service
from lifebus_admin.service.launchd import agent_state, agent_text
from lifebus_admin.service.state import ServiceState
from lifebus_admin.service.systemd import unit_state, unit_text
from support.patience import PATIENCE_S
from support.running import settings_in

AWKWARD = {
    "PLAIN": "/usr/bin:/bin",
    "SPACED": "a b  c",
    "PERCENT": "100%h of %n",
    "DOLLAR": "$HOME and ${PATH}",
    "QUOTED": "say \"yes\" and \\n and 'no'",
    "LINES": "one\ntwo",
    "UNICODE": "Zoë ✓",
}


def _definition(folder: Path, environment: dict[str, str] | None = None) -> ServiceDefinition:
    return ServiceDefinition(
        command=(sys.executable, "-P", "-m", "lifebus", "up", *(environment or {}).values()),
        environment=tuple((environment or {}).items()),
        home=str(folder),
        log=str(folder / "broker.log"),
    )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
@pytest.mark.parametrize("environment", [{}, AWKWARD])
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path, environment: dict[str, str]) -> None:
    unit = tmp_path / "lifebus.service"
    unit.write_text(unit_text(_definition(tmp_path, environment)))
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_the_check_by_systemd_would_find_what_is_wrong(tmp_path: Path) -> None:
    unit = tmp_path / "lifebus.service"
    unit.write_text(unit_text(_definition(tmp_path)).replace(sys.executable, "/no/such/python"))
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(unit)],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
    )
    assert ran.returncode != 0


def test_the_unit_starts_at_login_and_after_failures_and_leaves_what_ends_by_itself() -> None:
    lines = unit_text(_definition(Path("/home/ann"), AWKWARD)).splitlines()
    assert {"Type=notify", "Restart=on-failure", "WantedBy=default.target", "KillMode=process"} <= set(lines)
    assert 'Environment="PERCENT=100%%h of %%n"' in lines
    assert 'Environment="QUOTED=say \\"yes\\" and \\\\n and \'no\'"' in lines
    assert 'Environment="LINES=one\\ntwo"' in lines
    # In a command a dollar stands for a variable, in `Environment=` for itself.
    assert 'Environment="DOLLAR=$HOME and ${PATH}"' in lines
    assert any(line.startswith("ExecStart=") and '"$$HOME and $${PATH}"' in line for line in lines)


def test_the_agent_is_a_property_list_that_says_what_was_asked_for(tmp_path: Path) -> None:
    definition = _definition(tmp_path, AWKWARD)
    agent = plistlib.loads(agent_text(definition).encode())
    assert agent["ProgramArguments"] == list(definition.command)
    assert agent["EnvironmentVariables"] == AWKWARD
    assert (agent["RunAtLoad"], agent["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert agent["StandardErrorPath"] == str(tmp_path / "broker.log")
    assert agent["AbandonProcessGroup"] is True
    assert agent["Label"] == "dev.lifebus.broker"


def test_the_agent_has_keys_that_apple_documents_with_values_of_their_types() -> None:
    """As launchd.plist(5) has them: a key that it does not know is passed over, and nobody is told."""
    documented = {
        "Label": str,
        "ProgramArguments": list,
        "EnvironmentVariables": dict,
        "WorkingDirectory": str,
        "RunAtLoad": bool,
        "KeepAlive": dict,
        "ThrottleInterval": int,
        "ExitTimeOut": int,
        "AbandonProcessGroup": bool,
        "Umask": int,
        "StandardOutPath": str,
        "StandardErrorPath": str,
    }
    agent = plistlib.loads(agent_text(_definition(Path("/Users/ann"), AWKWARD)).encode())
    assert {name: type(value) for name, value in agent.items()} == documented
    assert {type(one) for one in (*agent["ProgramArguments"], *agent["EnvironmentVariables"].values())} == {str}
    assert agent["KeepAlive"].keys() <= {"SuccessfulExit", "Crashed", "PathState", "OtherJobEnabled"}
    assert agent["Umask"] == int("077", 8)  # a property list has no octal numbers


def test_a_service_gets_places_and_settings_and_nothing_about_a_session_or_a_secret(tmp_path: Path) -> None:
    environ = {
        "PATH": "/opt/bin:/bin",
        "CODEX_HOME": "/srv/codex",
        "LIFEBUS_LOG_LEVEL": "debug",
        "LIFEBUS_CLAUDE_HOME": "/srv/claude",
        "XDG_STATE_HOME": "/srv/state",
        "LIFEBUS_CLAUDE_SESSION_ID": "s1",
        "LIFEBUS_CLIENT_ID": "me",
        "LIFEBUS_HOST_ADAPTER": "codex",
        "ANTHROPIC_API_KEY": "secret",
        "TERM": "xterm",
        "XDG_CONFIG_HOME": "",
    }
    settings = settings_in(tmp_path)
    found = dict(define_service(settings, environ, command=("lifebus", "up"), home="/home/ann").environment)
    own = {
        "LIFEBUS_RUNTIME_DIR": str(tmp_path / "run"),
        "LIFEBUS_STATE_DIR": str(tmp_path / "state"),
        "LIFEBUS_LOG_FILE": str(tmp_path / "state/log/broker.log"),
    }
    kept = ("PATH", "CODEX_HOME", "LIFEBUS_LOG_LEVEL", "LIFEBUS_CLAUDE_HOME", "XDG_STATE_HOME")
    assert found == {name: environ[name] for name in kept} | own
    more = define_service(settings, environ, command=("lifebus",), home="/h", further=["ANTHROPIC_API_KEY", "NONE"])
    assert dict(more.environment) == found | {"ANTHROPIC_API_KEY": "secret"}


def test_what_systemd_says() -> None:
    running = "LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nMainPID=42\nNRestarts=3\n"
    assert unit_state(running + "Result=success\n") == ServiceState(
        loaded=True, at_login=True, running=True, pid=42, restarts=3, words="active (running)"
    )
    failed = "LoadState=loaded\nActiveState=failed\nSubState=failed\nMainPID=0\nNRestarts=5\nResult=exit-code\n"
    assert unit_state(failed) == ServiceState(
        loaded=True, at_login=False, running=False, pid=None, restarts=5, words="failed (failed), exit-code"
    )
    assert not unit_state("LoadState=not-found\nActiveState=inactive\n").loaded
    assert unit_state("").running is False


def test_what_launchd_says() -> None:
    printed = """gui/501/dev.lifebus.broker = {
\tactive count = 1
\tpath = /Users/ann/Library/LaunchAgents/dev.lifebus.broker.plist
\tstate = running

\tprogram = /usr/bin/python3
\truns = 3
\tpid = 4711
\tlast exit code = 70

\tspawn type = daemon (3)
\tsockets = {
\t\tstate = waiting
\t}
}
"""
    assert agent_state(printed) == ServiceState(
        loaded=True, at_login=True, running=True, pid=4711, restarts=2, words="running, last exit code 70"
    )
    waiting = printed.replace("state = running", "state = not running").replace("\tpid = 4711\n", "")
    assert (agent_state(waiting).running, agent_state(waiting).pid) == (False, None)
    assert agent_state(None).words == "not loaded"
