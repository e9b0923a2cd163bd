"""`lifebus service` under a real systemd: logins, a kill, an upgrade, reboots, and nothing left after the removal.

`make systemd` runs it; it needs root and the package systemd-container.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from support.client_environment import build
from support.e2e.booted_system import MISSING, USER, BootedSystem, booted_system
from support.paths import REPOSITORY
from support.patience import PATIENCE_S
from support.running import short_directory
from support.user_environment import environment

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="boots a system, which needs root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

PLACE: Final = "/opt/lifebus"
HOME: Final = f"/home/{USER}"
WAIT: Final = "until lifebus status >/dev/null 2>&1; do sleep 0.1; done"
"""Patience is the caller's: a script that goes on too long is ended."""
BROKER: Final = ("pgrep", "--euid", USER, "--full", "lifebus up")
MANY: Final = 12
"""Restarts: more than the unit allows of failures."""
STREAM: Final = """
import itertools, pathlib, time, lifebus.blocking
with lifebus.blocking.connect("stream", wait=True, timeout=PATIENCE_S) as bus:
    for number in itertools.count(1):
        frame = lifebus.FrameContext(frame_id=f"f{number}", frame_class=lifebus.FrameClass.TOP_LEVEL)
        bus.emit(lifebus.make_request("frame.opened", "codex", session="stream", frame=frame))
        if pathlib.Path("restarted").exists():
            break
        time.sleep(0.02)  # not so fast that the ledger is what is tested
print(number)
"""


@pytest.fixture(scope="module")
def system() -> Iterator[BootedSystem]:
    """A system with lifebus installed, from a wheel, and a user who never logged in."""
    with short_directory() as directory, booted_system(directory) as booted:
        environment(booted.root / PLACE[1:], wheel_of(REPOSITORY, directory / "first", booted))
        install(booted, "first")
        (booted.root / HOME[1:] / ".profile").write_text(f"PATH={PLACE}/bin:$PATH\n")
        yield booted


def wheel_of(source: Path, target: Path, system: BootedSystem) -> Path:
    """Build a wheel, also below /opt of the system."""
    target.mkdir()
    wheel = build(source, target)
    folder = system.root / "opt" / target.name
    folder.mkdir()
    shutil.copy(wheel, folder)
    return wheel


def install(system: BootedSystem, name: str) -> None:
    """Install a wheel with pip, over another version if one is there."""
    (wheel,) = (system.root / "opt" / name).iterdir()
    words = ["pip", "--python", f"{PLACE}/bin/python", "install", "--no-index", "--no-deps", "--force-reinstall"]
    system.run(sys.executable, "-m", *words, "--quiet", f"/opt/{name}/{wheel.name}")


def files(system: BootedSystem) -> set[str]:
    """Everything in the home but ledger and log."""
    found = system.run("find", HOME, "-not", "-path", f"{HOME}/.local*").out
    return set(found.split())


def shown(system: BootedSystem, command: str) -> Any:
    return json.loads(system.log_in(command).out)


def sessions(system: BootedSystem) -> set[str]:
    found = shown(system, f"{WAIT}; lifebus sessions --json")
    return {one["harness_session_id"] for one in found}


@pytest.fixture
def service(system: BootedSystem) -> Iterator[BootedSystem]:
    """The system with the service installed; nothing of it is left where it was removed."""
    before = files(system)
    # Between two logins the manager would end, and the broker with it.
    system.log_in("loginctl enable-linger")
    assert "the service runs: process" in system.log_in("lifebus service install --yes").err
    yield system
    assert "removed" in system.log_in("lifebus service remove --yes").err
    system.log_in("loginctl disable-linger")
    assert files(system) == before
    known = system.log_in("systemctl --user list-unit-files 'lifebus*'; systemctl --user list-units --all 'lifebus*'")
    assert ".service" not in known.out
    system.run(*BROKER, code=1)


def test_hooks_and_clients_find_the_one_that_runs(service: BootedSystem) -> None:
    found = shown(service, "lifebus service status --json")
    assert found["state"]["at_login"] is True
    assert found["state"]["pid"] == found["broker"]["pid"]
    assert service.log_in("systemctl --user is-enabled lifebus").out == "enabled\n"
    call = json.dumps({"session_id": "by-hook", "hook_event_name": "SessionStart", "source": "startup"})
    service.log_in(f"lifebus hooks install claude --yes && echo '{call}' | .local/share/lifebus/lifebus-hook claude")
    service.log_in("lifebus emit session.started --adapter codex --session by-client")
    assert {"by-hook", "by-client"} <= sessions(service)
    service.log_in("lifebus hooks remove --yes")


def test_after_a_kill_it_comes_back_with_its_ledger_and_goes_on_in_its_log(service: BootedSystem) -> None:
    service.log_in("lifebus emit session.started --adapter codex --session before")
    first = shown(service, "lifebus status --json")["pid"]
    restarts = "$(systemctl --user show lifebus -p NRestarts --value)"
    service.log_in(f"kill -9 {first}; until [ {restarts} = 1 ]; do sleep 0.1; done; {WAIT}")
    assert "before" in sessions(service)
    found = shown(service, "lifebus service status --json")
    assert found["broker"]["pid"] != first
    assert found["state"]["restarts"] == 1
    log = service.root / HOME[1:] / ".local/state/lifebus/log/broker.log"
    assert log.read_text().count('"event":"ready"') >= 2


def test_it_is_restarted_as_often_as_one_likes_and_nothing_that_a_client_sends_is_lost(service: BootedSystem) -> None:
    home = service.root / HOME[1:]
    (home / "stream.py").write_text(STREAM.replace("PATIENCE_S", str(PATIENCE_S)))
    restarts = f"for number in $(seq {MANY}); do lifebus service restart || exit 9; done"
    sent = service.log_in(
        f"{PLACE}/bin/python stream.py & ({restarts}); code=$?; touch restarted; wait $! && exit $code"
    )
    count = int(sent.out)
    kept = service.log_in("lifebus receipts export --session codex/stream").out.splitlines()
    assert [json.loads(line)["sequence"] for line in kept] == list(range(1, count + 1))
    for name in ("stream.py", "restarted"):
        (home / name).unlink()


def test_what_is_stopped_by_hand_stays_so_until_the_next_login(service: BootedSystem) -> None:
    # Longer than systemd waits before it starts again what failed.
    service.log_in("lifebus down && sleep 4; systemctl --user is-active lifebus", code=3)
    service.log_in("loginctl disable-linger")
    service.logged_out()
    service.run(*BROKER, code=1)
    service.log_in(WAIT)


def test_variables_arrive_as_they_are(service: BootedSystem) -> None:
    value = "a b  c 100%h $HOME ${PATH} \"yes\" \\n 'no' one\ntwo Zoë ✓"
    script = service.root / HOME[1:] / "install.py"
    words = f"[{PLACE + '/bin/lifebus'!r}, 'service', 'install', '--yes', '--env', 'AWKWARD']"
    script.write_text(f"import os, subprocess\nsubprocess.run({words}, env=os.environ | {{'AWKWARD': {value!r}}})\n")
    service.log_in(f"{PLACE}/bin/python install.py")
    script.unlink()
    pid = shown(service, f"{WAIT}; lifebus status --json")["pid"]
    assert f"AWKWARD={value}" in service.run("cat", f"/proc/{pid}/environ").out.split("\0")


def test_a_client_that_is_there_first_waits_for_the_service(service: BootedSystem) -> None:
    script = service.root / HOME[1:] / "first.py"
    connects = f'lifebus.blocking.connect("first", wait=True, timeout={PATIENCE_S})'
    script.write_text(f"import lifebus.blocking\nwith {connects} as bus:\n    print(bus.status().pid)\n")
    found = service.log_in(
        f"lifebus down; {PLACE}/bin/python first.py > said & lifebus service restart; wait; cat said; rm said"
    )
    script.unlink()
    assert int(found.out) == shown(service, "lifebus status --json")["pid"]


def test_an_upgrade_is_told_of_and_a_restart_runs_it(service: BootedSystem, tmp_path: Path) -> None:
    old = shown(service, "lifebus status --json")["pid"]
    wheel_of(newer(tmp_path / "source"), tmp_path / "second", service)
    install(service, "second")
    status = service.log_in("lifebus status")
    assert "9.9.9" in status.out
    assert "`lifebus service restart`" in status.out
    assert shown(service, "lifebus status --json")["pid"] == old
    service.log_in("lifebus emit session.started --adapter codex --session by-the-newer")
    assert "version 9.9.9" in service.log_in("lifebus service restart").err
    assert "`lifebus service restart`" not in service.log_in("lifebus status").out
    assert "by-the-newer" in sessions(service)


def newer(target: Path) -> Path:
    """Copy what is built, as a version that is not out yet."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, capture_output=True).stdout
    for name in filter(None, os.fsdecode(listed).split("\0")):
        if (REPOSITORY / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, target / name)
    for path in (target / "pyproject.toml", target / "supervisor/lifebus_supervisor/version.py"):
        path.write_text(re.sub(r'(?m)^((?:version|VERSION.*?) = )"[^"]+"', r'\1"9.9.9"', path.read_text(), count=1))
    return target


def test_after_a_reboot_it_runs_with_the_login_and_with_lingering_before_it(service: BootedSystem) -> None:
    service.log_in("lifebus emit session.started --adapter codex --session rebooted")
    for lingers in (False, True):
        service.log_in(f"loginctl {'enable' if lingers else 'disable'}-linger")
        service.shut_down()
        service.boot()
        if lingers:
            service.run("sh", "-c", f"until {' '.join(BROKER[:-1])} '{BROKER[-1]}'; do sleep 0.1; done")
        else:
            service.run(*BROKER, code=1)
        service.log_in(WAIT)
        assert "rebooted" in sessions(service)
