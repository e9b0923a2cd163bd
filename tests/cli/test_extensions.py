"""`lifebus extensions`: begun, listed, reloaded, trusted, audited."""

from pathlib import Path

import anyio

import lifebus
from support.command_line import Shell, broker_up


def test_an_extension_is_begun_loaded_trusted_and_audited(alone: Shell) -> None:
    made = alone.call("extensions", "new", "notes")
    assert made.code == 0
    folder = Path(made.out.partition(":")[0])
    assert sorted(path.name for path in folder.iterdir()) == ["events.py", "extension.toml"]
    assert alone.call("extensions", "new", "notes").code == 2
    assert alone.call("extensions", "new", "../up").code == 2
    with broker_up(alone):
        done = alone.call("extensions", "reload", "--json")
        while done.json.get("code") == "reload_in_progress":  # the one of the start
            done = alone.call("extensions", "reload", "--json")
        assert (done.code, done.json["loadedCount"]) == (0, 1)
        listed = alone.call("extensions", "list").out
        for words in ("notes", "repo_local", "accepted", "lifecycle.frame.ended"):
            assert words in listed
        trusted = alone.call("extensions", "trust", "notes", "--json").json
        assert trusted["files"] == ["events.py", "extension.toml"]
        assert alone.call("extensions", "trust", "notes", "--hash", "sha256:" + "0" * 64).code != 0
        (folder / "events.py").write_text("x = (")
        before = alone.call("extensions", "list", "--json").json["snapshotVersion"]
        failed = alone.call("extensions", "reload")
        assert failed.code == 1
        assert "import_failed" in failed.err
        assert alone.call("extensions", "list", "--json").json["snapshotVersion"] == before
        records = alone.call("extensions", "audit", "--json").json
        assert [(one["action"], one["result"]) for one in records if one["action"] != "start"][-3:] == [
            ("reload", "success"),
            ("trust", "success"),
            ("reload", "failed"),
        ]
        assert "import_failed" in alone.call("extensions", "audit").out
        anyio.run(ask, alone.directory / "run")


def test_a_name_whose_folder_would_never_be_loaded_is_refused(alone: Shell) -> None:
    for name in ("lib", "runtime"):
        refused = alone.call("extensions", "new", name)
        assert (refused.code, refused.out) == (2, "")
        assert f"`{name}`" in refused.err
    elsewhere = str(alone.directory / "elsewhere")
    assert elsewhere in alone.call("extensions", "new", "notes", "--in", elsewhere).err


async def ask(runtime_dir: Path) -> None:
    async with lifebus.connect("test", runtime_dir=runtime_dir) as bus:
        (one,) = (await bus.extensions.list()).modules
        assert (one.module_name, one.trust.mode.value) == ("notes", "warn")
