"""Gate SL-G2 wherever it runs: the same log gives the same bytes under any hash seed, time zone, locale and Python."""

import os
import shutil
import subprocess
import sys

import pytest

from histories import history, lines_of
from lifebus_broker.log import encode_line
from saves.replaying import derived

LOG = b"".join(map(encode_line, lines_of(history(5, 300))))
SURROUNDINGS = [
    {"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "4294967295", "TZ": "America/St_Johns", "LC_ALL": "C.utf8", "PYTHONUTF8": "0"},
    {"PYTHONHASHSEED": "random", "TZ": "garbage", "LANG": "tr_TR.UTF-8", "PYTHONOPTIMIZE": "2"},
]


def replayed(python: str, surroundings: dict[str, str]) -> bytes:
    """Return what a process of its own derives of the log."""
    command = [python, "-m", "saves.replaying"]
    environment = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path), **surroundings}
    return subprocess.run(command, input=LOG, env=environment, capture_output=True, check=True, timeout=60).stdout


@pytest.mark.parametrize("surroundings", SURROUNDINGS, ids=lambda one: one["PYTHONHASHSEED"])
def test_a_replay_gives_the_same_bytes_whatever_surrounds_it(surroundings: dict[str, str]) -> None:
    assert replayed(sys.executable, surroundings) == derived(LOG)


@pytest.mark.parametrize("name", ["python3.12", "python3.13", "python3.14"])
def test_a_replay_gives_the_same_bytes_in_any_python_that_is_here(name: str) -> None:
    python = shutil.which(name)
    can_import = [python or "", "-c", "import msgspec, hypothesis"]
    environment = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path)}
    if python is None or subprocess.run(can_import, env=environment, capture_output=True, check=False).returncode:
        pytest.skip(f"{name} is not here, or cannot load what is installed for this one")
    assert replayed(python, {}) == derived(LOG)
