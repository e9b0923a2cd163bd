"""Tests of faults run through both ways in which a ledger commits."""

import pytest

from lifebus_broker.ledger.sqlite.writing.disk_pace import DiskPace
from support.crash.commit_ways import LOOP, WAYS


@pytest.fixture(params=WAYS)
def commit_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way in turn, however quick the disk is."""
    way = str(request.param)
    monkeypatch.setattr(DiskPace, "is_quick", way == LOOP)
    return way


@pytest.fixture
def by_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread commits: the loop goes on while the disk takes its time."""
    monkeypatch.setattr(DiskPace, "is_quick", False)
