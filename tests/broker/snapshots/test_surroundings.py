"""docs/ledger.md SL-G2 anywhere: one log gives the same bytes under any hash seed, time zone, locale and Python."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lifebus_broker.ledger.log import encode_line
from support.histories import history, lines_of
from support.patience import PATIENCE_S
from support.snapshots.replaying import derived

REPLAYERS = [path for path in sys.path if path and not Path(path, "os.py").exists()]
SOURCES = [path for path in REPLAYERS if "site-packages" not in path and "lib-dynload" not in path]
"""Where the modules of this repository are; with `REPLAYERS`, what is installed beside them."""

LOG = b"".join(map(encode_line, lines_of(history(5, 300))))
SURROUNDINGS = [
    {"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "4294967295", "TZ": "America/St_Johns", "LC_ALL": "C.utf8", "PYTHONUTF8": "0"},
    {"PYTHONHASHSEED": "random", "TZ": "garbage", "LANG": "tr_TR.UTF-8", "PYTHONOPTIMIZE": "2"},
]


def replayed(python: str, surroundings: dict[str, str]) -> bytes:
    """Return what a process of its own derives of the log."""
    command = [python, "-m", "support.snapshots.replaying"]
    environment = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path), **surroundings}
    return subprocess.run(
        command, input=LOG, env=environment, capture_output=True, check=True, timeout=PATIENCE_S
    ).stdout


@pytest.mark.parametrize("surroundings", SURROUNDINGS, ids=lambda one: one["PYTHONHASHSEED"])
def test_a_replay_gives_the_same_bytes_whatever_surrounds_it(surroundings: dict[str, str]) -> None:
    assert replayed(sys.executable, surroundings) == derived(LOG)


@pytest.mark.parametrize("minor", range(11, 16), ids="python3.{}".format)
def test_a_replay_gives_the_same_bytes_in_any_other_python_that_is_here(minor: int) -> None:
    places = REPLAYERS if minor == sys.version_info.minor else SOURCES  # what is installed here fits no other version
    environment = {"PYTHONPATH": os.pathsep.join(places)}
    for python in (Path(folder, f"python3.{minor}") for folder in os.get_exec_path()):
        if version_of(python, environment) not in {"", sys.version}:
            assert replayed(str(python), environment) == derived(LOG)
            return
    pytest.skip(f"no other Python 3.{minor} that has msgspec is on the path")


def version_of(python: Path, environment: dict[str, str]) -> str:
    """Return which Python it is, nothing where it is none or has no msgspec."""
    if not python.is_file():
        return ""
    command = [str(python), "-c", "import msgspec, sys; print(sys.version, end='')"]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    ).stdout
