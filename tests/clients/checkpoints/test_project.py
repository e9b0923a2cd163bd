"""Checkpoints of a project: kept byte for byte, found by id and by phase, their files proved and compared again."""

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus.checkpoints import store as store_module
from lifebus.checkpoints.project import ProjectCheckpoints
from lifebus.checkpoints.records import is_checkpoint_id
from lifebus.loa.checkpoint import LOA_CHECKPOINT
from lifebus_contract import InvalidRequest, LifebusError
from support.clients.checkpoints import artifact, document, project_in, text
from support.effort import effort


def code_of(fault: pytest.ExceptionInfo[LifebusError]) -> str | None:
    return fault.value.code


def test_what_is_saved_is_found_by_id_and_by_phase_byte_for_byte(tmp_path: Path) -> None:
    body = b'{ "more": {"z": 1.50, "a": [1e2, "\\u00e9"]},\n ' + text()[1:]
    with project_in(tmp_path) as project:
        info, is_new = project.save(body)
        assert (is_new, is_checkpoint_id(info.checkpoint_id), info.number) == (True, True, 1)
        for which in (info.checkpoint_id, "implementation"):
            found = project.get(which)
            assert found is not None
            assert (found.body, found.info) == (body, info)
        assert project.get("design") is None
        assert project.get("ckpt_" + "0" * 26) is None
    with project_in(tmp_path) as again:
        found = again.get("implementation")
        assert found is not None
        assert found.document["more"] == {"z": 1.5, "a": [100.0, "é"]}


def test_the_newest_is_the_one_that_was_saved_last_whatever_its_clock_said(tmp_path: Path) -> None:
    with project_in(tmp_path) as project:
        project.save(document(summary="first", created_at="2030-01-01T00:00:00Z"))
        second, _ = project.save(document(summary="second", created_at="2020-01-01T00:00:00Z", execution_id="exec-2"))
        project.save(document(phase="design"))
        found = project.get("implementation")
        assert found is not None
        assert found.info == second
        first = project.get("implementation", run_id="exec-1")
        assert first is not None
        assert first.document["summary"] == "first"
        assert project.get("implementation", run_id="exec-3") is None
        assert [one.name for one in project.list()[0]] == ["implementation", "implementation", "design"]
        assert [one.number for one in project.list(name="implementation")[0]] == [1, 2]
        assert [one.number for one in project.list(last=2)[0]] == [2, 3]
        assert project.list(last=0)[0] == []


def test_a_checkpoint_that_is_saved_again_is_the_same_one(tmp_path: Path) -> None:
    with project_in(tmp_path) as project:
        first = project.save(text())
        project.save(text(summary="another"))
        assert project.save(text()) == (first[0], False)
        assert len(project.list()[0]) == 2


def test_projects_have_checkpoints_of_their_own_by_whatever_path(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("one")
    state = tmp_path / "state"
    ids = []
    for name in ("one", "two"):
        with ProjectCheckpoints(LOA_CHECKPOINT, tmp_path / name, state_dir=state) as project:
            ids.append(project.save(text())[0].checkpoint_id)
    assert len(set(ids)) == 2
    with ProjectCheckpoints(LOA_CHECKPOINT, tmp_path / "link", state_dir=state) as project:
        assert [one.checkpoint_id for one in project.list()[0]] == ids[:1]
    assert [one.name for one in tmp_path.glob("*/*") if one.parent.name in {"one", "two"}] == []


def test_asking_makes_nothing(tmp_path: Path) -> None:
    with project_in(tmp_path) as project:
        assert (project.get("a"), project.list(), project.store.unrecorded()) == (None, ([], []), [])
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "malformed"),
        (b"[]", "against_contract"),
        (b"null", "against_contract"),
        (text()[:-1], "malformed"),
        (text() + b"{}", "malformed"),
        (text()[:-1] + b',"phase":"twice"}', "duplicate_key"),
        (text()[:-1] + b',"more":NaN}', "not_finite"),
        (text()[:-1] + b',"more":"\\ud800"}', "lone_surrogate"),
        (text()[:-1] + b',"more":"\xff"}', "malformed"),
        (text(more="x" * 262_144), "too_large"),
    ],
    ids=lambda one: str(one)[:20],
)
def test_what_is_no_checkpoint_is_not_saved(tmp_path: Path, body: bytes, code: str) -> None:
    with project_in(tmp_path) as project:
        with pytest.raises(InvalidRequest) as refused:
            project.save(body)
        assert code_of(refused) == code
        assert project.list() == ([], [])


def test_files_are_proved_when_a_checkpoint_is_saved(tmp_path: Path) -> None:
    with project_in(tmp_path) as project:
        (tmp_path / "root" / "a").mkdir()
        (tmp_path / "root" / "a" / "file").write_bytes(b"contents")
        (tmp_path / "secret").write_bytes(b"secret")
        (tmp_path / "root" / "link").symlink_to("../secret")
        good = artifact("a/file", b"contents")
        project.save(document(artifacts=[good, artifact("a/file", b"contents", checksum=good["checksum"][7:].upper())]))
        wrong: dict[str, dict[str, Any]] = {
            "is not there": artifact("a/none", b""),
            "has 8 bytes, the checkpoint says 9": good | {"size_bytes": 9},
            "has the digest": artifact("a/file", b"CONTENTS"),
            "goes up by": artifact("../secret", b"secret"),
            "is absolute": artifact(str(tmp_path / "secret"), b"secret"),
            "symbolic link": artifact("link", b"secret"),
            "is no regular file": artifact("a", b""),
        }
        for why, one in wrong.items():
            with pytest.raises(InvalidRequest, match=why) as refused:
                project.save(document(artifacts=[good, one]))
            assert (code_of(refused), refused.value.field) == ("artifact_mismatch", "$.artifacts[1]")
        assert len(project.list()[0]) == 1


def test_files_that_have_changed_since_are_named(tmp_path: Path) -> None:
    names = ["same", "gone", "longer", "other", "linked"]
    with project_in(tmp_path) as project:
        root = tmp_path / "root"
        for name in names:
            (root / name).write_bytes(b"12345")
        project.save(document(artifacts=[artifact(name, b"12345") for name in names]))
        found = project.get("implementation")
        assert found is not None
        assert project.verify(found) == ()
        (root / "gone").unlink()
        (root / "longer").write_bytes(b"123456")
        (root / "other").write_bytes(b"54321")
        (root / "linked").unlink()
        (root / "linked").symlink_to("same")
        differences = project.verify(found)
    assert [(one.path, one.kind.value) for one in differences] == [
        ("gone", "missing"),
        ("longer", "resized"),
        ("other", "changed"),
        ("linked", "refused"),
    ]
    assert all(one.path in one.detail for one in differences)


def test_an_export_is_the_yaml_of_the_newest(tmp_path: Path) -> None:
    with project_in(tmp_path) as project:
        for summary in ("older", "newer"):
            project.save(document(summary=summary))
            found = project.get("implementation")
            assert found is not None
            assert project.export(found) == ".loa-checkpoint/implementation.yaml"
        assert found is not None
        made = (tmp_path / "root" / ".loa-checkpoint" / "implementation.yaml").read_text()
        assert yaml.safe_load(made) == document(summary="newer")
        (tmp_path / "root" / ".loa-checkpoint").rename(tmp_path / "elsewhere")
        (tmp_path / "root" / ".loa-checkpoint").symlink_to("../elsewhere")
        with pytest.raises(LifebusError) as refused:
            project.export(found)
        assert code_of(refused) == "path_is_link"


def test_a_damaged_file_is_never_passed_over_in_silence_and_saving_again_repairs_it(tmp_path: Path) -> None:
    with project_in(tmp_path) as project:
        project.save(text(summary="older"))
        newest, _ = project.save(text())
        (path,) = (tmp_path / "state").rglob(f"*{newest.checkpoint_id}.checkpoint")
        sound = path.read_bytes()
        step = max(1, len(sound) // effort(40, len(sound)))
        for place in range(0, len(sound), step):
            damaged = bytearray(sound)
            damaged[place] ^= 0x20
            path.write_bytes(bytes(damaged))
            for which in (newest.checkpoint_id, "implementation"):
                with pytest.raises(LifebusError) as refused:
                    project.get(which)
                assert code_of(refused) == "checkpoint_damaged"
        for contents in (b"", sound[:-1], sound + b" ", sound.partition(b"\n")[2]):
            path.write_bytes(contents)
            with pytest.raises(LifebusError) as refused:
                project.get("implementation")
            assert code_of(refused) == "checkpoint_damaged"
        assert [len(project.list()[0]), project.list()[1]] == [1, [newest.checkpoint_id]]
        assert project.save(text())[1]
        found = project.get("implementation")
        assert found is not None
        assert (found.body, found.info.number) == (text(), newest.number)


def test_the_oldest_of_a_name_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store_module.MAX_KEPT == 256
    monkeypatch.setattr(store_module, "MAX_KEPT", 3)
    with project_in(tmp_path) as project:
        other, _ = project.save(document(phase="other"))
        for number in range(6):
            info, _ = project.save(document(summary=str(number)))
            project.store.mark_recorded(info.checkpoint_id)
        infos, _ = project.list()
        assert [one.number for one in infos] == [1, 5, 6, 7]
        assert infos[0] == other
        assert len(list((tmp_path / "state").rglob("*.recorded"))) == 3


def test_the_directory_is_ours_alone(tmp_path: Path) -> None:
    with project_in(tmp_path) as project:
        project.save(text())
        (directory,) = (tmp_path / "state" / "checkpoints").iterdir()
        assert directory.stat().st_mode & 0o777 == 0o700
        directory.chmod(0o755)
        with pytest.raises(LifebusError) as refused:
            project.get("implementation")
        assert code_of(refused) == "directory_mode"


def test_a_file_that_others_put_there_is_none_of_ours(tmp_path: Path) -> None:
    with project_in(tmp_path) as project:
        project.save(text())
        (directory,) = (tmp_path / "state" / "checkpoints").iterdir()
        (directory / "notes.txt").write_text("mine")
        (directory / "1.2.ckpt.checkpoint").write_text("")
        assert len(project.list()[0]) == 1
        assert project.list()[1] == []


def test_a_store_that_is_held_is_busy_and_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl  # noqa: PLC0415

    monkeypatch.setattr(store_module, "_LOCK_TIMEOUT_S", 0.05)
    with project_in(tmp_path) as project:
        project.save(text())
        (lock,) = (tmp_path / "state").rglob("lock")
        with lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(LifebusError) as refused:
                project.get("implementation")
        assert code_of(refused) == "busy"
        assert project.get("implementation") is not None


def _save_many(directory: Path, who: int, many: int) -> None:
    with project_in(directory) as project:
        for number in range(many):
            project.save(document(summary=f"{who} {number}"))


def test_processes_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    many = 10
    (tmp_path / "root").mkdir()
    context = multiprocessing.get_context("fork")
    savers = [context.Process(target=_save_many, args=(tmp_path, who, many)) for who in range(3)]
    for saver in savers:
        saver.start()
    for saver in savers:
        saver.join()
    assert [saver.exitcode for saver in savers] == [0] * 3
    with project_in(tmp_path) as project:
        infos, broken = project.list()
        found = [project.get(one.checkpoint_id) for one in infos]
    assert broken == []
    assert [one.number for one in infos] == list(range(1, 3 * many + 1))
    assert {one.document["summary"] for one in found if one} == {f"{a} {b}" for a in range(3) for b in range(many)}


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=effort(25, 1_000))
@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), PLAIN, max_size=4),
    st.sampled_from([None, 0, 3]),
)
def test_unknown_fields_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, more: dict[str, Any], indent: int | None
) -> None:
    whole = {**more, **document(decisions=[{**document()["decisions"][0], **{"x" + key: more[key] for key in more}}])}
    body = json.dumps(whole, indent=indent, ensure_ascii=indent is None).encode()
    directory = tmp_path_factory.getbasetemp() / "unknown"
    directory.mkdir(exist_ok=True)
    with project_in(directory) as project:
        info, _ = project.save(body)
        found = project.get(info.checkpoint_id)
        as_mapping, _ = project.save(whole)
        again = project.get(as_mapping.checkpoint_id)
    assert found is not None
    assert again is not None
    assert (found.body, found.document, again.document) == (body, whole, whole)
