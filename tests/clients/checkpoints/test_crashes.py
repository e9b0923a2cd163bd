"""A checkpoint survives a kill at any point: it is there whole or not at all, and saving it again settles it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lifebus_contract import LifebusError
from support.clients.checkpoints import document, project_in, text
from support.effort import effort
from support.transports.crashing_changes import Counted, Crash

OLD = text(summary="old")
NEW = text(summary="new")


def prepared(directory: Path) -> Path:
    """A project with one checkpoint, whose receipt is on record."""
    directory.mkdir()
    with project_in(directory) as project:
        info, _ = project.save(OLD)
        project.store.mark_recorded(info.checkpoint_id)
    return directory


def test_a_crash_between_any_two_calls_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    def save(directory: Path, changes: Counted) -> None:
        with project_in(directory, changes) as project:
            info, _ = project.save(NEW)
            project.store.mark_recorded(info.checkpoint_id)

    whole = Counted()
    save(prepared(tmp_path / "whole"), whole)
    assert whole.calls.count("rename") == 2
    seen: set[tuple[bytes, int]] = set()
    for last in range(1, len(whole.calls) + 1):
        directory = prepared(tmp_path / str(last))
        with pytest.raises(Crash):
            save(directory, Counted(last))
        with project_in(directory) as project:
            found = project.get("implementation")
            assert found is not None
            waiting = [one.checkpoint_id for one in project.store.unrecorded()]
            seen.add((found.body, len(waiting)))
            # The receipt of what is there is either on record or known to be missing.
            assert project.list()[1] == []
            info, is_new = project.save(NEW)
            assert is_new is (found.body == OLD)
            found = project.get("implementation")
            assert found is not None
            assert found.body == NEW
            assert [one.number for one in project.list()[0]] == [1, 2]
            assert info.checkpoint_id in waiting or is_new or waiting == []
    assert seen == {(OLD, 0), (NEW, 1), (NEW, 0)}


def test_every_call_that_fails_is_said_and_the_old_one_stands(tmp_path: Path) -> None:
    def save(directory: Path, changes: Counted) -> None:
        with project_in(directory, changes) as project:
            project.save(NEW)

    whole = Counted()
    save(prepared(tmp_path / "whole"), whole)
    for last in range(1, len(whole.calls) + 1):
        directory = prepared(tmp_path / str(last))
        with pytest.raises(LifebusError) as refused:
            save(directory, Counted(last, OSError(28, "No space left on device")))
        assert refused.value.code == "disk_full"
        with project_in(directory) as project:
            found = project.get("implementation")
            assert found is not None
            assert found.body in {OLD, NEW}
            assert project.list()[1] == []


def test_a_crash_while_old_ones_make_room_loses_none_that_is_to_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lifebus.checkpoints.store.MAX_KEPT", 2)

    def fill(directory: Path) -> Path:
        directory.mkdir()
        with project_in(directory) as project:
            for number in range(2):
                info, _ = project.save(document(summary=str(number)))
                project.store.mark_recorded(info.checkpoint_id)
        return directory

    whole = Counted()
    with project_in(fill(tmp_path / "whole"), whole) as project:
        project.save(NEW)
    assert "unlink" in whole.calls
    for last in range(whole.calls.index("rename") + 2, len(whole.calls) + 1):
        directory = fill(tmp_path / str(last))
        with pytest.raises(Crash), project_in(directory, Counted(last)) as project:
            project.save(NEW)
        with project_in(directory) as project:
            kept = [project.get(one.checkpoint_id) for one in project.list()[0]]
            assert [one.document["summary"] for one in kept if one][-2:] == ["1", "new"]
            project.save(document(summary="last"))
            assert len(project.list()[0]) == 2


SAVER = """
import json, sys
from pathlib import Path
from lifebus.checkpoints.project import ProjectCheckpoints
from lifebus.loa.checkpoint import LOA_CHECKPOINT
whole = json.loads(sys.argv[2])
with ProjectCheckpoints(LOA_CHECKPOINT, Path(sys.argv[1]) / "root", state_dir=Path(sys.argv[1]) / "state") as project:
    for number in range(10**9):
        info, _ = project.save(whole | {"summary": f"{sys.argv[3]} {number} " + "x" * 4000})
        print(number, info.checkpoint_id, flush=True)
"""


def test_what_was_acknowledged_outlives_its_killed_saver(tmp_path: Path) -> None:
    acknowledged: list[tuple[str, str]] = []
    (tmp_path / "root").mkdir()
    for life in range(effort(3, 300)):
        command = [sys.executable, "-c", SAVER, str(tmp_path), json.dumps(document()), str(life)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as saver:
            assert saver.stdout is not None
            # Killed after a few answers, and then in the middle of whatever it does.
            lines = [saver.stdout.readline() for _ in range(3 + life % 5)]
            saver.send_signal(signal.SIGKILL)
            lines += saver.stdout.readlines()
        acknowledged += [(f"{life} {line.split()[0]} ", line.split()[1]) for line in lines if line.endswith("\n")]
        with project_in(tmp_path) as project:
            for summary, which in acknowledged[-20:]:
                found = project.get(which)
                assert found is not None
                assert found.document["summary"].startswith(summary)
            assert project.list()[1] == []
            newest = project.get("implementation")
            assert newest is not None
            assert newest.info.number >= len(acknowledged)
