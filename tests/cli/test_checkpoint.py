"""`lifebus checkpoint`: saved, found, listed, compared, exported, with a broker and without one."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from support.clients.checkpoints import artifact, document, text
from support.command_line import Shell, broker_up
from support.running import short_directory


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def shell(tmp_path: Path, root: Path) -> Shell:
    """A user whose steps know the root of their run."""
    return Shell(tmp_path, LIFEBUS_FLOW_ROOT=str(root))


def test_a_checkpoint_is_saved_found_and_exported_without_a_broker(shell: Shell, root: Path) -> None:
    body = text()
    saved = shell.call("checkpoint", "save", stdin=body)
    assert saved.code == 0
    assert "not on record yet: " in saved.err
    which = saved.out.strip()
    for name in (which, "implementation"):
        assert shell.call("checkpoint", "show", name).out == body.decode() + "\n"
    missing = shell.call("checkpoint", "show", "design")
    assert (missing.code, missing.out) == (1, "")
    assert missing.err.startswith("lifebus: there is no checkpoint `design`\n")
    assert shell.call("checkpoint", "show", "implementation", "--run", "other").code == 1
    listed = shell.call("checkpoint", "list")
    assert listed.out.splitlines()[1].split() == [
        which,
        "implementation",
        "exec-1",
        "2026-01-31T12:00:00.000Z",
        str(len(body)),
    ]
    exported = shell.call("checkpoint", "export", "implementation")
    assert exported.out == ".loa-checkpoint/implementation.yaml\n"
    assert yaml.safe_load((root / ".loa-checkpoint" / "implementation.yaml").read_text()) == document()
    assert [one.name for one in root.iterdir()] == [".loa-checkpoint"]


def test_every_answer_is_there_in_json(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(text())
    saved = shell.call("checkpoint", "save", str(tmp_path / "file"), "--json", "--root", str(tmp_path)).json
    assert (saved["is_new"], saved["recorded"]) == (True, False)
    which = saved["checkpoint"]["checkpoint_id"]
    found = shell.call("checkpoint", "show", which, "--json", "--verify", "--root", str(tmp_path)).json
    assert (found["checkpoint"], found["differences"], found["info"]) == (document(), [], saved["checkpoint"])
    assert shell.call("checkpoint", "show", "none", "--json").json == {"info": None, "checkpoint": None}
    assert shell.call("checkpoint", "list", "--json", "--root", str(tmp_path)).json == {
        "checkpoints": [saved["checkpoint"]],
        "damaged": [],
    }
    assert shell.call("checkpoint", "export", "--json", "--root", str(tmp_path)).json == {
        "exported": [".loa-checkpoint/implementation.yaml"]
    }
    assert shell.call("checkpoint", "export", "--json").code == 1


def test_the_newest_of_each_phase_is_exported(shell: Shell, root: Path) -> None:
    for phase, summary in (("design", "one"), ("audit", "two"), ("design", "three")):
        shell.call("checkpoint", "save", stdin=text(phase=phase, summary=summary))
    shell.call("checkpoint", "export")
    made = {path.name: yaml.safe_load(path.read_text())["summary"] for path in (root / ".loa-checkpoint").iterdir()}
    assert made == {"design.yaml": "three", "audit.yaml": "two"}


def test_differences_are_named_and_decide_the_exit_code(shell: Shell, root: Path) -> None:
    (root / "file").write_bytes(b"12345")
    shell.call("checkpoint", "save", stdin=text(artifacts=[artifact("file", b"12345")]))
    assert shell.call("checkpoint", "show", "implementation", "--verify").code == 0
    (root / "file").write_bytes(b"54321")
    differing = shell.call("checkpoint", "show", "implementation", "--verify")
    assert differing.code == 1
    assert differing.err.startswith("changed: `file` has the digest sha256:")
    assert json.loads(differing.out)["phase"] == "implementation"


def test_what_is_wrong_is_said_with_what_to_do(shell: Shell, tmp_path: Path) -> None:
    wrong = shell.call("checkpoint", "save", stdin=text(exit_code=3))
    assert wrong.code == 65
    assert wrong.err.startswith("lifebus: the document on stdin: `exit_code`: ")
    absent = shell.call("checkpoint", "save", stdin=text(artifacts=[artifact("none", b"")]))
    assert absent.code == 65
    assert "`artifacts[0]`: `none` is not there" in absent.err
    assert "write the file, then save" in absent.err
    assert shell.call("checkpoint", "save", "--root", str(tmp_path / "none"), stdin=text()).code == 74
    assert shell.call("checkpoint", "list", "--kind", "other").code == 2
    assert shell.call("checkpoint", "export", "none").code == 1
    shell.call("checkpoint", "save", stdin=text())
    (path,) = (tmp_path / "state").rglob("*.checkpoint")
    path.write_bytes(path.read_bytes()[:-1])
    damaged = shell.call("checkpoint", "show", "implementation")
    assert (damaged.code, damaged.out) == (74, "")
    listed = shell.call("checkpoint", "list")
    assert (listed.code, "is damaged" in listed.err) == (1, True)


def test_a_phase_with_a_slash_is_not_exported(shell: Shell) -> None:
    shell.call("checkpoint", "save", stdin=text(phase="../escape"))
    refused = shell.call("checkpoint", "export")
    assert refused.code == 65
    assert "is not the name of a file" in refused.err


def test_with_a_broker_its_digest_is_on_record(shell: Shell) -> None:
    shell.call("checkpoint", "save", "--session", "codex/s1", stdin=text(summary="early"))
    with broker_up(shell):
        saved = shell.call("checkpoint", "save", "--session", "codex/s1", stdin=text())
        assert (saved.code, saved.err) == (0, "")
        shown = shell.call("receipts", "list", "--session", "codex/s1", "--json")
    ids = [one["receipt"]["payload_receipts"][0]["payload_id"] for one in shown.lines]
    assert (len(ids), ids[-1]) == (2, saved.out.strip())


FLOW = """
[defaults]
max_retries = 0
on_failure = "abort"

[[phases]]
name = "design"
pass_env = ["LIFEBUS_*", "PYTHON*"]
shell = '''
echo drawn > plan
"$LIFEBUS_PYTHON" -m lifebus checkpoint save checkpoint.json > saved
'''

[[phases]]
name = "implementation"
pass_env = ["LIFEBUS_*", "PYTHON*"]
shell = '''
"$LIFEBUS_PYTHON" -m lifebus checkpoint show design --verify > found
echo changed > plan
code=0; "$LIFEBUS_PYTHON" -m lifebus checkpoint show design --verify > found 2> differences || code=$?
test $code = 1
'''
"""


def test_a_phase_of_a_flow_leaves_a_checkpoint_in_the_session_of_its_run(tmp_path: Path, root: Path) -> None:
    with short_directory() as directory:
        shell = Shell(directory, LIFEBUS_PYTHON=sys.executable)
        (root / "flow.toml").write_text(FLOW)
        (root / "checkpoint.json").write_bytes(text(phase="design", artifacts=[artifact("plan", b"drawn\n")]))
        with broker_up(shell):
            ran = shell.run("flow", "run", str(root / "flow.toml"), "--id", "drawn-1")
            assert ran.code == 0, ran.err
            shown = shell.call("receipts", "list", "--session", "flow/drawn-1", "--json", "--last", "100")
    saved = (root / "saved").read_text().strip()
    placed = [payload for one in shown.lines for payload in one["receipt"]["payload_receipts"]]
    assert [one["payload_id"] for one in placed if one["payload_kind"] == "loa.checkpoint"] == [saved]
    assert (root / "found").read_bytes() == (root / "checkpoint.json").read_bytes() + b"\n"
    assert (root / "differences").read_text().startswith("resized: `plan` has 8 bytes, the checkpoint says 6")
