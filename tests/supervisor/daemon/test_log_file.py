"""The log file of a broker without a terminal: bounded, and whatever the process writes to stderr is in it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lifebus_supervisor.daemon.log_file import end_of_log
from lifebus_supervisor.daemon.readiness import READY, take_address, tell
from support.patience import PATIENCE_S
from support.running import short_directory

_PROGRAM = """
import os, sys
from pathlib import Path
from lifebus_supervisor.daemon.log_file import LogFile
log = LogFile(Path(sys.argv[1]), most_bytes=1_000, kept=2)
for number in range(100):
    log.write(f"line {number:03} " + "x" * 40 + "\\n")
os.write(2, b"what C wrote\\n")
print("what was printed", flush=True)
if sys.argv[2:]:
    Path(sys.argv[1]).unlink()
    log.write("into a file that is gone\\n")
    log.write("into another one\\n")
"""


def _run(path: Path, *words: str) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-c", _PROGRAM, str(path), *words]
    return subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S)


def test_it_is_put_aside_at_its_size_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    path.write_text("from an older broker\n")
    ran = _run(path)
    assert (ran.stdout, ran.stderr) == (b"", b"")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["broker.log", "broker.log.1", "broker.log.2"]
    # One line goes beyond the bound before a file is put aside.
    assert all(file.stat().st_size < 1_000 + 100 for file in tmp_path.iterdir())
    assert {oct(file.stat().st_mode & 0o777) for file in tmp_path.glob("*.log")} <= {"0o600", "0o644"}
    kept = [line for name in (".2", ".1", "") for line in Path(f"{path}{name}").read_text().splitlines()]
    numbers = [int(line.split()[1]) for line in kept if line.startswith("line")]
    assert numbers == list(range(numbers[0], 100))
    assert kept[-2:] == ["what C wrote", "what was printed"]


def test_a_file_that_somebody_deleted_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    _run(path, "unlink")
    assert path.read_text() == "into another one\n"


def test_the_end_of_a_log_is_what_was_written_since(tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    path.write_text("old\n")
    since = path.stat().st_size
    path.write_text("old\n" + "".join(f"{number}\n" for number in range(50)))
    assert end_of_log(path, since=since) == [str(number) for number in range(30, 50)]
    assert end_of_log(path, since=since, lines=100)[0] == "0"
    path.write_text("a\n")
    assert end_of_log(path, since=since) == ["a"]
    assert end_of_log(tmp_path / "none") == []


@pytest.mark.parametrize("address", ["{}/ready", "@lifebus-test-{}"])
def test_who_started_it_is_told_and_nobody_else_sees_the_address(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    if address.startswith("@") and sys.platform != "linux":
        pytest.skip("only Linux has abstract addresses")
    with short_directory() as short, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        named = address.format(short if address.startswith("{") else f"{os.getpid()}-{short.name}")
        listening.bind(named.replace("@", "\0", 1) if named.startswith("@") else named)
        monkeypatch.setenv("NOTIFY_SOCKET", named)
        found = take_address()
        assert found == named
        assert "NOTIFY_SOCKET" not in os.environ
        tell(found, READY)
        listening.settimeout(PATIENCE_S)
        assert listening.recv(100) == b"READY=1"
    tell(named, READY)  # nobody listens any more, which is no failure
    assert take_address() is None
