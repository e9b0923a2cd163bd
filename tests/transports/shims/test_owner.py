"""A shim whose owner is gone: it begins nothing any more, and says how what it ran has ended."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from lifebus_transports.shims.end_file import record_end
from lifebus_transports.shims.messages import Unpacker, pack
from support.patience import PATIENCE_S

SHIM = [sys.executable, "-c", "from lifebus_transports.shims.shim import main; main()"]


def command(folder: Path, *argv: str) -> dict[str, Any]:
    return {
        "argv": [*argv],
        "cwd": str(folder),
        "environment": {"PATH": "/usr/bin:/bin"},
        "output": str(folder / "1"),
        "keep": 1_000,
        "limits": [],
        "records_end": True,
    }


def test_a_command_whose_owner_is_gone_is_not_begun(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(pack(command(tmp_path, "touch", "begun")))
    ours.close()
    with theirs:
        assert subprocess.run(SHIM, stdin=theirs.fileno(), check=False, timeout=PATIENCE_S).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.err", "1.out"]


def test_how_a_command_ended_stands_beside_its_output_before_the_owner_hears_of_it(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(pack(command(tmp_path, "sh", "-c", "exit 7")))
    with theirs, ours:
        shim = subprocess.Popen(SHIM, stdin=theirs.fileno())
        messages = Unpacker()
        ours.settimeout(PATIENCE_S)
        heard: list[Any] = []
        while not any("end" in one for one in heard):
            heard += messages.feed(ours.recv(65_536))
        assert json.loads((tmp_path / "1.end").read_text()) == {"status": 7, "asked": False}
        assert not (tmp_path / "1.end.new").exists()
    assert shim.wait(PATIENCE_S) == 0


def test_an_end_that_cannot_be_written_is_none(tmp_path: Path) -> None:
    record_end(str(tmp_path / "missing" / "1"), 0, asked=False)
    assert list(tmp_path.iterdir()) == []
