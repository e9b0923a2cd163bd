"""A plugin of the pytest that runs over a broken copy: it writes down how each test ended, and why.

Only an assertion that fails in the body of a test proves anything: an import that breaks, a fixture that fails or time
that runs out may have other reasons.
"""

import json
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

OUTCOMES = "LIFEBUS_MUTANT_OUTCOMES"
"""Environment variable: the file that is written, a JSON object of test ids and ends, and what was imported where."""

_ends: dict[str, str] = {}


def kind_of(fault: BaseException | None) -> str:
    """Return how a test ended: `passed`, `assertion`, `timeout`, or the name of another exception."""
    if fault is None:
        return "passed"
    if isinstance(fault, BaseExceptionGroup):
        kinds = {kind_of(each) for each in fault.exceptions}
        return "assertion" if "assertion" in kinds else min(kinds)
    if isinstance(fault, pytest.fail.Exception):
        return "timeout" if str(fault).startswith("Timeout") else "assertion"
    return "assertion" if isinstance(fault, AssertionError) else type(fault).__name__


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fault = call.excinfo.value if call.excinfo is not None else None
    if report.when == "call" and _ends.get(item.nodeid, "passed") == "passed":  # a test is reported after its subtests
        _ends[item.nodeid] = kind_of(fault)
    elif report.failed:
        _ends.setdefault(item.nodeid, f"{report.when}: {kind_of(fault)}")  # what a failed test left behind says less
    return report


def pytest_sessionfinish() -> None:
    ours = {name: module for name, module in sys.modules.items() if name.split(".")[0].startswith("lifebus")}
    files = sorted({str(getattr(module, "__file__", None)) for module in ours.values()})
    Path(os.environ[OUTCOMES]).write_text(json.dumps({"ends": _ends, "files": files}))
