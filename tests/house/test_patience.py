"""How long a test waits is said in one place: a machine that is slow fails none."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import REPOSITORY
from support.patience import PATIENCE_S, TEST_S

SHORT_S, LONG_S = 1, 100
"""What is shorter is waited for to see that nothing comes; what is longer is never reached."""
RETRIES = {"tests/crash/test_kill_nine_signals.py": 1}
"""An attempt that is made again, and not what the test waits for."""

_BOUND = re.compile(
    r"(?:\b(?:timeout=|(?:timeout|fail_after|settimeout|wait|join)\()|\bwait_for\(.*, )([0-9.]+)(?=[,)])"
)


def bounds_of_its_own(source: str) -> list[int]:
    """Return the lines with a wait of some seconds, by a number that stands there."""
    return [
        number
        for number, line in enumerate(source.splitlines(), 1)
        if any(SHORT_S < float(found) < LONG_S for found in _BOUND.findall(line))
    ]


def test_no_wait_of_a_test_has_a_bound_of_its_own() -> None:
    files = [path for path in (REPOSITORY / "tests").rglob("*.py") if path != Path(__file__)]
    found = {str(path.relative_to(REPOSITORY)): bounds_of_its_own(path.read_text()) for path in files}
    assert len(files) > 400
    assert {file: lines for file, lines in found.items() if len(lines) > RETRIES.get(file, 0)} == {}


def test_the_guard_finds_them() -> None:
    wrong = "asyncio.timeout(5)\nprocess.wait(timeout=20.0)\nconnect(timeout=30)\nwait_for(it, 10)\ndone.wait(7)"
    assert bounds_of_its_own(wrong) == [1, 2, 3, 4, 5]
    right = "asyncio.timeout(0.05)\nprocess.wait(PATIENCE_S)\nconnect(timeout=600)\nsignal.wait(0.0)"
    assert bounds_of_its_own(right) == []


def test_the_suite_passes_with_any_umask() -> None:
    one = "tests/cli/test_continuation.py::test_a_thread_has_one_token_and_it_is_not_overwritten"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", one]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(
        command, cwd=REPOSITORY, env=environment, umask=0, capture_output=True, text=True, timeout=TEST_S, check=False
    )
    assert (ran.returncode, "1 passed" in ran.stdout) == (0, True), ran.stdout


def test_each_test_has_the_same_bound(request: pytest.FixtureRequest) -> None:
    node: pytest.Item = request.node
    marker = node.get_closest_marker("timeout")
    assert marker is not None
    assert marker.args == (TEST_S,)
    assert TEST_S > PATIENCE_S
