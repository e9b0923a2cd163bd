"""`lifebus ledger boot` and `verify` on a ledger that somebody changed and linked anew, links and all."""

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.command_line import Shell
from support.effort import effort
from support.snapshots.ledgers import change_rows, make_ledger
from support.snapshots.relinking import forge_record, record_body, relink_rows, streams_of

COUNT = 120


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose state has a ledger of a random history and a save of it."""
    shell = Shell(tmp_path_factory.mktemp("original"))
    state = shell.directory / "state"
    state.mkdir(mode=0o700)
    make_ledger(state / "ledger.db", COUNT, seed=8)
    assert shell.call("ledger", "save", "session").code == 0
    return shell.directory


@pytest.fixture
def saved(original: Path, tmp_path: Path) -> Shell:
    """A shell with a copy of it."""
    shutil.copytree(original, tmp_path / "copy")
    return Shell(tmp_path / "copy")


def ledger_of(shell: Shell) -> Path:
    return shell.directory / "state/ledger.db"


def failed_boot(shell: Shell) -> dict[str, Any]:
    ran = shell.call("ledger", "boot", "--check", "--json")
    assert ran.code == 1
    failed: dict[str, Any] = ran.json["failed"]
    return failed


@pytest.mark.parametrize("seed", range(effort(20, 200)))
def test_a_stream_that_was_linked_anew_is_named_with_the_first_changed_position(saved: Shell, seed: int) -> None:
    chosen = random.Random(seed)
    name, stream = chosen.choice(sorted(streams_of(ledger_of(saved)).items(), key=str))
    changed = stream[chosen.choice([-1, 0, chosen.randrange(len(stream))])]

    relink_rows(ledger_of(saved), stream, changed)

    failed = failed_boot(saved)
    assert (failed["step"], failed["position"], failed["within"]) == (4, changed, None)
    assert f"of the stream {name[0]}/{'receipts without a session' if name[1] is None else name[1]}" in failed["reason"]


def test_a_snapshot_that_is_kept_elsewhere_has_its_own_supplement(saved: Shell, tmp_path: Path) -> None:
    shutil.copytree(saved.directory / "state/snapshots", tmp_path / "elsewhere")
    (kept,) = (tmp_path / "elsewhere").glob("*.json")
    for supplement in (saved.directory / "state/snapshots").glob("*.supplement"):
        supplement.unlink()
    stream = max(streams_of(ledger_of(saved)).values(), key=len)
    relink_rows(ledger_of(saved), stream, stream[3])

    ran = saved.call("ledger", "boot", "--check", "--json", str(kept))

    assert (ran.code, ran.json["failed"]["position"]) == (1, stream[3])
    assert failed_boot(saved)["position"] is None


def test_verify_names_the_same_position(saved: Shell) -> None:
    stream = max(streams_of(ledger_of(saved)).values(), key=len)
    relink_rows(ledger_of(saved), stream, stream[2])

    ran = saved.call("ledger", "verify", "--json")

    assert ran.code == 1
    assert any(f"position {stream[2]}: the line of the stream" in fault for fault in ran.json["faults"])


@pytest.mark.parametrize("torn", [False, True])
def test_for_a_save_without_a_supplement_the_range_is_named_and_why_it_is_no_narrower(saved: Shell, torn: bool) -> None:
    (supplement,) = (saved.directory / "state/snapshots").glob("*.supplement")
    if torn:
        supplement.write_bytes(supplement.read_bytes()[:-1])
    else:
        supplement.unlink()
    assert saved.call("ledger", "boot", "--check").code == 0
    stream = max(streams_of(ledger_of(saved)).values(), key=len)

    relink_rows(ledger_of(saved), stream, stream[1])

    failed = failed_boot(saved)
    assert (failed["step"], failed["position"], failed["within"]) == (4, None, [1, COUNT])
    why = f"{supplement.name} cannot be used: torn" if torn else "nothing beside this snapshot has a digest of each"
    assert why in failed["reason"]
    assert f"somewhere in the positions 1 to {COUNT}" in failed["detail"]


def with_another_adapter(shell: Shell) -> Shell:
    """Return a shell for which there is one adapter more, so that a pin differs."""
    manifest = json.loads(shell.call("contract", "manifest", "show", "codex", "--json").out) | {"adapter_id": "mine"}
    path = shell.directory / "mine.json"
    path.write_text(json.dumps(manifest))
    return Shell(shell.directory, LIFEBUS_MANIFESTS=str(path))


@pytest.fixture
def revised(saved: Shell) -> Shell:
    """A shell with one adapter more, which a revision allows."""
    later = with_another_adapter(saved)
    assert later.call("ledger", "boot", "--check", "--revise", "a new adapter").code == 0
    assert later.call("ledger", "boot", "--check").code == 0
    return later


@pytest.mark.parametrize("relink", [False, True])
def test_g6_a_revision_that_was_forged_authorises_nothing(revised: Shell, relink: bool) -> None:
    (first,) = [one["snapshot_id"] for one in revised.call("ledger", "snapshots", "--json").json]
    # A save made since pins the head of the revisions: only so is a chain found that was linked anew to its end.
    assert revised.call("ledger", "save", "scene").code == 0
    manifest = json.loads((revised.directory / "mine.json").read_text())
    (revised.directory / "mine.json").write_text(json.dumps(manifest | {"display_name": "nobody approved this"}))
    refused = revised.call("ledger", "boot", "--check", first)
    assert refused.code == 1
    found = re.search(r"`manifests\.mine` was `[0-9a-f]{64}` and is `([0-9a-f]{64})`", refused.err)
    assert found is not None
    forged = record_body(ledger_of(revised), "pins", 1)
    forged["to"]["manifests"]["mine"] = found[1]

    forge_record(ledger_of(revised), "pins", 1, forged, relink=relink)

    ran = revised.call("ledger", "boot", "--check", "--json", first)
    assert ran.code == 1
    assert (ran.json["failed"]["step"], ran.json["failed"]["position"]) == (2, None)
    cause = "the revisions up to 1 are not those that a save has pinned" if relink else "note 1: link (hash chain)"
    assert cause in ran.json["failed"]["reason"]
    assert "no revision in it is believed" in ran.json["failed"]["detail"]
    # Nor is another revision put on top of it.
    again = revised.call("ledger", "boot", "--revise", "again", first)
    assert again.code != 0
    assert cause in again.err


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM notes",
        "UPDATE notes SET number = 2",
        "UPDATE notes SET at_epoch_s = at_epoch_s + 1",
        "UPDATE notes SET body = CAST(body AS TEXT)",
        "UPDATE note_streams SET link = zeroblob(32)",
        "INSERT INTO notes SELECT id, 2, at_epoch_s, body, link FROM notes",
    ],
)
def test_g6_where_a_revision_is_missing_moved_or_put_in_none_is_believed(revised: Shell, damage: str) -> None:
    change_rows(ledger_of(revised), damage)

    ran = revised.call("ledger", "boot", "--check", "--json")

    assert ran.code == 1
    assert ran.json["failed"]["step"] == 2
    assert "no revision in it is believed" in ran.json["failed"]["detail"]


def test_g6_a_revision_that_a_save_has_seen_cannot_be_taken_away(revised: Shell) -> None:
    (first,) = [one["snapshot_id"] for one in revised.call("ledger", "snapshots", "--json").json]
    assert revised.call("ledger", "save", "scene").code == 0

    change_rows(ledger_of(revised), "DELETE FROM notes", "DELETE FROM note_streams")

    ran = revised.call("ledger", "boot", "--check", "--json", first)
    assert (ran.code, ran.json["failed"]["step"]) == (1, 2)
    assert "revision 1 was there at a save, and is missing" in ran.json["failed"]["reason"]


def test_a_supplement_goes_with_its_snapshot_and_saving_twice_leaves_it_as_it_is(saved: Shell) -> None:
    directory = saved.directory / "state/snapshots"
    before = {path.name: path.read_bytes() for path in directory.iterdir()}

    assert saved.call("ledger", "save", "session", "--json").json["new"] is False

    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    assert {path.stem for path in directory.glob("*.supplement")} == {path.stem for path in directory.glob("*.json")}
    assert oct((directory / next(iter(before))).stat().st_mode & 0o777) == "0o600"
