"""`lifebus ledger save`, `lifebus ledger snapshots` and `lifebus ledger boot` on a ledger file, without a broker."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from support.command_line import Ran, Shell
from support.snapshots.ledgers import change_rows, make_ledger, prune_ledger

COUNT = 30


@pytest.fixture
def saved(alone: Shell) -> Shell:
    """A shell with a ledger of a random history that was saved in all three ways."""
    state = alone.directory / "state"
    state.mkdir(mode=0o700)
    make_ledger(state / "ledger.db", COUNT)
    for which in ("scene", "session", "campaign"):
        assert alone.call("ledger", "save", which).code == 0
    return alone


def state_of(shell: Shell) -> dict[str, bytes]:
    directory = shell.directory / "state"
    return {path.name: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def with_another_adapter(shell: Shell) -> Shell:
    """Return a shell for which there is one adapter more, so that a pin differs."""
    manifest = json.loads(shell.call("contract", "manifest", "show", "codex", "--json").out) | {"adapter_id": "mine"}
    path = shell.directory / "mine.json"
    path.write_text(json.dumps(manifest))
    return Shell(shell.directory, LIFEBUS_MANIFESTS=str(path))


def lines_of(ran: Ran) -> list[str]:
    return ran.out.splitlines()


def test_saving_twice_saves_once_and_writes_nothing_else(saved: Shell) -> None:
    before = state_of(saved)

    again = saved.call("ledger", "save", "session", "--json")

    assert again.json["new"] is False
    assert (again.json["position"], again.json["save_type"]) == (COUNT, "SESSION")
    assert state_of(saved) == before


def test_snapshots_are_listed_newest_first_with_what_is_provable(saved: Shell) -> None:
    listed = saved.call("ledger", "snapshots", "list", "--json")

    assert listed.code == 0
    assert [(one["save_type"], one["position"], one["why_not"]) for one in listed.json] == [
        ("CAMPAIGN", COUNT, None),
        ("SESSION", COUNT, None),
        ("SCENE", COUNT, None),
    ]
    assert "provable" in lines_of(saved.call("ledger", "snapshots"))[0]


def test_show_prints_the_file_as_it_is(saved: Shell) -> None:
    (path,) = [one for one in (saved.directory / "state/snapshots").iterdir() if b'"SCENE"' in one.read_bytes()]

    assert saved.call("ledger", "snapshots", "show", path.stem).json == json.loads(path.read_bytes())
    assert saved.call("ledger", "snapshots", "show", str(path)).json == json.loads(path.read_bytes())


def test_boot_prints_twelve_steps_and_what_was_open_and_changes_nothing(saved: Shell) -> None:
    before = state_of(saved)

    ran = saved.call("ledger", "boot")

    assert ran.code == 0
    assert [int(line.split()[1]) for line in lines_of(ran)[:12]] == list(range(1, 13))
    assert lines_of(ran)[13].startswith(f"at position {COUNT}: ")
    assert "pending" in ran.out
    assert state_of(saved) == before


def test_boot_check_prints_the_steps_alone(saved: Shell) -> None:
    ran = saved.call("ledger", "boot", "--check")

    assert (ran.code, len(lines_of(ran))) == (0, 12)
    assert saved.call("ledger", "boot", "--check", "--json").json.keys() == {"ok", "steps"}


def test_boot_answers_programs_in_json(saved: Shell) -> None:
    answer = saved.call("ledger", "boot", "--json").json

    assert answer["ok"] is True
    assert [step["number"] for step in answer["steps"]] == list(range(1, 13))
    assert answer["resume"]["position"] == COUNT


def test_a_tampered_log_fails_with_its_step_and_position_and_what_to_do(saved: Shell) -> None:
    ledger = saved.directory / "state/ledger.db"
    change_rows(ledger, "UPDATE rows SET receipt = CAST(CAST(receipt AS TEXT) || ' ' AS BLOB) WHERE position = 9")

    shown, plain = saved.call("ledger", "boot", "--check"), saved.call("ledger", "boot", "--check", "--json")

    assert (shown.code, plain.code) == (1, 1)
    assert "step 4 of 12" in shown.err
    assert "position 9" in shown.err
    assert "lifebus ledger verify" in shown.err
    assert (plain.json["ok"], plain.json["failed"]["step"], plain.json["failed"]["position"]) == (False, 4, 9)
    assert len(plain.json["steps"]) == 3
    assert saved.call("ledger", "snapshots", "verify").code == 1


def test_a_dropped_last_line_fails(saved: Shell) -> None:
    change_rows(saved.directory / "state/ledger.db", f"DELETE FROM rows WHERE position = {COUNT}")

    ran = saved.call("ledger", "boot", "--check", "--json")

    assert (ran.code, ran.json["failed"]["step"], ran.json["failed"]["position"]) == (1, 3, COUNT)


def test_a_torn_snapshot_is_named_and_refused(saved: Shell) -> None:
    path = min((saved.directory / "state/snapshots").iterdir())
    path.write_bytes(path.read_bytes()[:-7])

    assert saved.call("ledger", "snapshots", "list").code == 1
    assert f"{path.name}: refused: torn or changed" in saved.call("ledger", "snapshots", "list").err
    assert saved.call("ledger", "boot", path.stem).code == 1
    assert "step 1 of 12" in saved.call("ledger", "boot", path.stem).err
    verdicts = {one["name"]: one["verdict"] for one in saved.call("ledger", "snapshots", "verify", "--json").json}
    assert sorted(verdicts.values()) == ["proved", "proved", "wrong"]
    assert verdicts[path.name] == "wrong"


def test_g6_a_changed_pin_fails_until_an_operator_writes_a_revision_down(saved: Shell) -> None:
    later = with_another_adapter(saved)

    failed = later.call("ledger", "boot", "--check")
    revised = later.call("ledger", "boot", "--check", "--revise", "a new adapter")
    again = later.call("ledger", "boot", "--check")

    assert failed.code == 1
    assert "`manifests.mine` was absent" in failed.err
    assert "--revise" in failed.err
    assert revised.code == 0
    assert lines_of(revised)[0].startswith("revision 1 of ")
    assert "`manifests.mine` was absent" in lines_of(revised)[1]
    assert again.code == 0
    assert "1 revisions lead to today's" in lines_of(again)[1]
    assert saved.call("ledger", "boot", "--check").code == 0  # of pins that never changed


def test_g6_a_revision_of_nothing_is_refused(saved: Shell) -> None:
    before = state_of(saved)

    ran = saved.call("ledger", "boot", "--revise", "for no reason")

    assert ran.code != 0
    assert "lead to today's already" in ran.err
    assert state_of(saved) == before


def test_rebuilding_from_the_snapshot_and_the_log_alone_gives_identical_bytes(saved: Shell) -> None:
    before = state_of(saved)

    ran = saved.call("ledger", "boot", "--rebuild", "--json")

    assert ran.code == 0
    assert [part["name"] for part in ran.json["parts"]] == [
        "log",
        "facts ledger",
        "unlock state",
        "story state",
        "working set",
        "session heads",
        "keys",
    ]
    assert {part["difference"] for part in ran.json["parts"]} == {None}
    assert (ran.json["position"], ran.json["lines"]) == (COUNT, COUNT)
    assert state_of(saved) == before


def test_after_a_cut_the_list_says_so_and_a_new_save_is_proved_and_rebuilt(saved: Shell) -> None:
    prune_ledger(saved.directory / "state/ledger.db", 12)

    listed = saved.call("ledger", "snapshots", "list", "--json").json
    verified = saved.call("ledger", "snapshots", "verify")
    one = saved.call("ledger", "snapshots", "verify", listed[0]["snapshot_id"])
    booted = saved.call("ledger", "boot", "--check", listed[0]["snapshot_id"])
    saved.call("ledger", "save", "session")
    rebuilt = saved.call("ledger", "boot", "--rebuild")

    assert {row["why_not"].split(";")[0] for row in listed} == {"its lines from 1 to 12 were pruned"}
    assert (verified.code, verified.out.count("unprovable")) == (0, 3)
    assert one.code == booted.code == 1
    assert "pruned up to 12" in booted.err
    assert "take a snapshot" in booted.err
    assert (rebuilt.code, rebuilt.out.count("identical")) == (0, 7), rebuilt.out


def test_rebuilding_shows_the_first_difference(saved: Shell) -> None:
    change_rows(saved.directory / "state/ledger.db", "UPDATE rows SET ended = 1 - ended")

    ran = saved.call("ledger", "boot", "--rebuild")

    assert ran.code == 1
    assert "different  session heads" in ran.out
    assert "identical  story state" in ran.out


def test_a_campaign_is_one_file_that_boots_without_its_ledger(saved: Shell, alone: Shell, tmp_path: Path) -> None:
    archive = tmp_path / "one.campaign"
    assert saved.call("ledger", "save", "campaign", "--to", str(archive)).code == 0
    elsewhere = Shell(tmp_path)

    ran = elsewhere.call("ledger", "boot", str(archive), "--json")

    assert ran.code == 0
    assert ran.json["resume"] == saved.call("ledger", "boot", "--json").json["resume"]
    assert not (tmp_path / "state").exists()


def test_only_a_campaign_is_written_into_a_file_and_none_is_overwritten(saved: Shell, tmp_path: Path) -> None:
    assert saved.call("ledger", "save", "session", "--to", str(tmp_path / "x")).code == 2
    (tmp_path / "x").write_text("mine")
    assert saved.call("ledger", "save", "campaign", "--to", str(tmp_path / "x")).code != 0
    assert (tmp_path / "x").read_text() == "mine"


def test_without_anything_saved_the_commands_say_so(alone: Shell) -> None:
    assert "there is no such ledger" in alone.call("ledger", "boot").err
    state = alone.directory / "state"
    state.mkdir(mode=0o700)
    make_ledger(state / "ledger.db", 3)

    assert "nothing was saved yet" in alone.call("ledger", "boot").err
    assert "nothing was saved yet" in alone.call("ledger", "snapshots", "list").err
    assert "nothing was saved yet" in alone.call("ledger", "snapshots", "verify").err
    assert alone.call("ledger", "boot", "0" * 16).code != 0


def test_beside_a_broker_it_saves_resumes_and_takes_revisions(bus: Shell) -> None:
    saved = bus.call("ledger", "save", "session", "--json")
    head = saved.json["position"]
    live, shown = bus.call("ledger", "boot", "--live", "--json"), bus.call("ledger", "boot", "--live")
    booted = bus.call("ledger", "boot", saved.json["snapshot_id"], "--json")
    listed = {one["snapshot_id"]: one["why_not"] for one in bus.call("ledger", "snapshots", "--json").json}
    refused = bus.call("ledger", "boot", "--revise", "for no reason")

    assert (saved.code, live.code, shown.code, booted.code) == (0, 0, 0, 0)
    assert live.json["position"] == head
    assert [one["frame_id"] for one in live.json["pending_state"]["PENDING_ROLL"]] == ["f1"]
    assert "PENDING_ROLL  codex/s1  f1, position 2: no end was recorded" in shown.out
    assert booted.json["resume"] == live.json
    assert listed[saved.json["snapshot_id"]] is None
    assert bus.call("ledger", "boot", "--rebuild", saved.json["snapshot_id"]).code == 0
    assert "lead to today's already" in refused.err
    assert bus.call("ledger", "save", "session", "--json").json["new"] is False


@pytest.mark.parametrize(
    "words", [("ledger", "save"), ("ledger", "save", "everything"), ("ledger", "boot", "--check", "--rebuild")]
)
def test_what_cannot_be_meant_is_a_usage_error(alone: Shell, words: tuple[str, ...]) -> None:
    assert alone.call(*words).code == 2


@pytest.mark.parametrize("pins", ["absent", "empty"])
def test_pins_that_are_not_there_are_advised_nothing_that_is_then_refused(saved: Shell, pins: str) -> None:
    newest = newest_snapshot(saved)
    plain = json.loads(newest.read_bytes())
    plain["pins_snapshot"].pop("hash_algorithm")
    if pins == "empty":
        plain["pins_snapshot"] = {}
    name = resealed_snapshot(newest, plain)

    failed = saved.call("ledger", "boot", name)

    assert failed.code == 1
    assert "step 2 of 12" in failed.err
    assert "--revise" not in failed.err
    assert "`lifebus ledger save session` makes a new one" in failed.err
    refused = saved.call("ledger", "boot", name, "--revise", "I mean it")
    assert refused.code == 65
    assert "no revision was written" in refused.err


def test_programs_get_whole_digests_and_people_their_first_digits(saved: Shell) -> None:
    plain = json.loads(newest_snapshot(saved).read_bytes())
    digests = [plain[f"{name}_digest"] for name in ("facts_ledger", "unlock_state", "story_state")]

    steps = saved.call("ledger", "boot", "--check", "--json").json["steps"]
    lines = lines_of(saved.call("ledger", "boot", "--check"))

    assert [digest in steps[6]["checked"] for digest in digests] == [True] * 3
    assert [digest[:16] + "…" in lines[6] for digest in digests] == [True] * 3
    assert plain["event_log_hash"] in lines[3]


def newest_snapshot(shell: Shell) -> Path:
    """The file of the snapshot that `lifebus ledger boot` takes."""
    (name, *_) = [one["snapshot_id"] for one in shell.call("ledger", "snapshots", "list", "--json").json]
    return shell.directory / "state" / "snapshots" / f"{name}.json"


def resealed_snapshot(path: Path, plain: dict[str, Any]) -> str:
    """Write a snapshot whose id and hash follow from its fields, beside the others; return its file."""
    body = {name: value for name, value in plain.items() if name not in {"snapshot_id", "bytes_hash"}}
    digest = hashlib.sha256(canonical(body)).hexdigest()
    target = path.with_name(f"{digest[:16]}.json")
    target.write_bytes(canonical({**body, "snapshot_id": digest[:16], "bytes_hash": digest}))
    target.chmod(0o600)
    return str(target)


def canonical(plain: dict[str, Any]) -> bytes:
    """Canonical JSON of what has integers alone, and keys in ASCII."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
