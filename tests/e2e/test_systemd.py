"""`lifebus service` under a real systemd: logins, a kill, an upgrade, reboots, and nothing left after the removal.

`make systemd` runs it; it needs root and the package systemd-container.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from support.client_environment import build
from support.e2e.booted_system import MISSING, USER, BootedSystem, booted_system
from support.paths import REPOSITORY
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
MANY: Final = 12
"""Restarts: more than the unit allows of failures."""
STREAM: Final = """
import itertools, pathlib, time, lifebus.blocking
with lifebus.blocking.connect("stream", wait=True, timeout=60) as bus:
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
    system.run(str(REPOSITORY / ".venv/bin/python"), "-m", *words, "--quiet", f"/opt/{name}/{wheel.name}")


def files(system: BootedSystem) -> set[str]:
    """Everything in the home but ledger and log."""
    found = system.run("find", HOME, "-not", "-path", f"{HOME}/.local*").out
    return set(found.split())


def shown(system: BootedSystem, command: str, code: int = 0) -> Any:
    return json.loads(system.log_in(command, code).out)


def test_the_life_of_a_service(system: BootedSystem) -> None:
    before = files(system)
    system.log_in("loginctl enable-linger")  # between two logins the manager would end, and the broker with it
    done = system.log_in("lifebus service install --yes")
    assert "the service runs: process" in done.err
    # Logged in anew: the manager runs it, clients and hooks find it, and it is what the manager calls its main process.
    first = shown(system, "lifebus service status --json")
    assert first["state"]["at_login"] is True
    assert first["state"]["pid"] == first["broker"]["pid"]
    assert system.log_in("systemctl --user is-enabled lifebus").out == "enabled\n"
    call = json.dumps({"session_id": "by-hook", "hook_event_name": "SessionStart", "source": "startup"})
    hook = f"echo '{call}' | .local/share/lifebus/lifebus-hook claude"
    system.log_in(f"lifebus hooks install claude --yes && {hook}")
    system.log_in("lifebus emit session.started --adapter codex --session before")

    # After a kill it comes back by itself, with the same ledger, and its log goes on.
    found = system.log_in(
        f"kill -9 $(systemctl --user show lifebus -p MainPID --value); until [ "
        f"$(systemctl --user show lifebus -p NRestarts --value) = 1 ]; do sleep 0.1; done; {WAIT}; "
        "lifebus sessions list --json"
    )
    assert {one["harness_session_id"] for one in json.loads(found.out)} == {"by-hook", "before"}
    again = shown(system, "lifebus service status --json")
    assert again["broker"]["pid"] != first["broker"]["pid"]
    assert again["state"]["restarts"] == 1
    log = system.root / HOME[1:] / ".local/state/lifebus/log/broker.log"
    assert log.read_text().count('"event":"ready"') >= 2

    # As often as one likes, and nothing of what a client sends in the meantime is lost.
    home = system.root / HOME[1:]
    (home / "stream.py").write_text(STREAM)
    restarts = f"for number in $(seq {MANY}); do lifebus service restart || exit 9; done"
    sent = system.log_in(
        f"{PLACE}/bin/python stream.py & ({restarts}); code=$?; touch restarted; wait $! && exit $code"
    )
    count = int(sent.out)
    kept = system.log_in("lifebus receipts export --session codex/stream").out.splitlines()
    assert [json.loads(line)["sequence"] for line in kept] == list(range(1, count + 1))
    for name in ("stream.py", "restarted"):
        (home / name).unlink()

    # What is stopped by hand stays stopped, until the next login.
    system.log_in("lifebus down && sleep 4; systemctl --user is-active lifebus", code=3)
    system.log_in("loginctl disable-linger")
    system.logged_out()
    system.log_in(WAIT)

    system.log_in("lifebus hooks remove --yes")
    system.log_in("lifebus service remove --yes")
    assert files(system) == before
    known = system.log_in("systemctl --user list-unit-files 'lifebus*'; systemctl --user list-units --all 'lifebus*'")
    assert ".service" not in known.out
    assert system.run("pgrep", "--euid", USER, "--full", "lifebus up", code=1).out == ""


def test_an_upgrade_is_told_of_and_a_restart_runs_it(system: BootedSystem, tmp_path: Path) -> None:
    system.log_in("loginctl enable-linger && lifebus service install --yes")
    old = shown(system, "lifebus status --json")
    wheel_of(newer(tmp_path / "source"), tmp_path / "second", system)
    install(system, "second")
    status = system.log_in("lifebus status")
    assert "9.9.9" in status.out
    assert "`lifebus service restart`" in status.out
    assert shown(system, "lifebus status --json")["pid"] == old["pid"]
    system.log_in("lifebus emit session.started --adapter codex --session by-the-newer")
    assert "version 9.9.9" in system.log_in("lifebus service restart").err
    assert "`lifebus service restart`" not in system.log_in("lifebus status").out
    assert "by-the-newer" in system.log_in("lifebus sessions").out
    system.log_in("lifebus service remove --yes && loginctl disable-linger")


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


def test_after_a_reboot_it_runs_with_the_login_and_with_lingering_before_it(system: BootedSystem) -> None:
    system.log_in("lifebus service install --yes; lifebus emit session.started --adapter codex --session rebooted")
    broker = ("pgrep", "--euid", USER, "--full", "lifebus up")
    for lingers in (False, True):
        system.log_in(f"loginctl {'enable' if lingers else 'disable'}-linger")
        system.shut_down()
        system.boot()
        if not lingers:
            system.run(*broker, code=1)
            system.log_in(WAIT)
        else:
            system.run("sh", "-c", f"until {' '.join(broker[:-1])} '{broker[-1]}'; do sleep 0.1; done")
        assert "rebooted" in system.log_in(f"{WAIT}; lifebus sessions").out
    system.log_in("loginctl disable-linger; lifebus service remove --yes")
