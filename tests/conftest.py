"""The whole suite leaves nothing: no child, no zombie, no orphan of a command, no descriptor.

Tests say with `record_property` what they have reached, and the summary shows it.
"""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from zmq.utils.garbage import gc as pyzmq_gc

from support.effort import TORTURE, effort
from support.fork_server import close_fork_server
from support.ignored_signals import catch_ignored_signals
from support.leftovers import MARK, Watch
from support.patience import TEST_S

LONGEST_S = 6 * 3600
USUAL_UMASK = 0o022
MEMORY = Path("/dev/shm")
"""A file system in memory, on Linux."""
ROOM = 2 << 30


def _is_useful(directory: Path) -> bool:
    """Whether the suite's files fit into a directory, and programs may be started from there."""
    if not os.access(directory, os.W_OK | os.X_OK) or os.statvfs(directory).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(directory).free > ROOM


# In memory no sync waits for a disk, and no test needs one: what a power cut takes is decided by disks of the tests.
# `make torture` stays on the disk, and so does who names a directory.
if not TORTURE and "TMPDIR" not in os.environ and _is_useful(MEMORY):
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

catch_ignored_signals()
# Who may write to what a test makes is decided here, and not by the umask of who started the suite: lifebus takes
# nothing that others may write to.  Tests about umasks set one.
os.umask(USUAL_UMASK)
# Nothing that the suite starts on this machine is asked for by way of a proxy.
for _name in ("NO_PROXY", "no_proxy"):
    os.environ[_name] = ",".join(filter(None, (os.environ.get(_name), "127.0.0.1", "::1", "localhost")))
# A slow machine is no fault of a property: neither an example nor the making of examples has a deadline.
_NO_FAULT = [HealthCheck.too_slow]
settings.register_profile("lifebus", max_examples=effort(40, 1_000), deadline=None, suppress_health_check=_NO_FAULT)
settings.load_profile("lifebus")
# The suite makes many objects that live long: the collector would spend a sixth of the time looking at them again.
gc.set_threshold(100_000, 50, 100)


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    watch = Watch()
    os.environ[MARK] = watch.mark
    yield
    close_fork_server()
    pyzmq_gc.stop()  # it starts with the first large message, and has descriptors of its own
    found = watch.wait()
    assert found == [], "\n".join(found)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bound each test.  Under `make torture`, leave out what does not scale, and give the others their time."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_S))
    if not TORTURE:
        return
    scaling = [item for item in items if isinstance(item, pytest.Function) and _scales(item)]
    for item in scaling:
        item.add_marker(pytest.mark.timeout(LONGEST_S), append=False)
    config.hook.pytest_deselected(items=[item for item in items if item not in scaling])
    items[:] = scaling


def _scales(item: pytest.Function) -> bool:
    """Whether a test does more under `make torture`: it says how much, or it is a property with the usual examples."""
    return hasattr(item.module, "effort") or getattr(item.obj, "is_hypothesis_test", False)


def pytest_collection_finish() -> None:
    """Keep the collected tests and their modules out of every later garbage collection: they live to the end."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Under `make torture`, say at once what a test did and found: a run of hours may be ended before its summary."""
    if not TORTURE or "PYTEST_XDIST_WORKER" in os.environ or (report.when != "call" and report.passed):
        return
    reached = "".join(f", {name} {value}" for name, value in report.user_properties)
    sys.stderr.write(f"\n{report.nodeid}: {report.outcome} after {report.duration:.0f} s{reached}\n")
    if report.failed:
        sys.stderr.write(f"{report.longreprtext}\n")
    sys.stderr.flush()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what tests have recorded, such as how many cycles and how many acknowledgements."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            if report.when == "call" and report.user_properties:
                reached = ", ".join(f"{name} {value}" for name, value in report.user_properties)
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {reached}")
