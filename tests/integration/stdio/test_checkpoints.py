"""Checkpoints over the lines of `lifebus dev stdio`, with a broker and without one."""

from pathlib import Path
from typing import Any

import yaml

from support.clients.checkpoints import artifact, document
from support.integration.stdio_peers import stdio_peer
from support.running import connected, running_bus


def code(answer: dict[str, Any]) -> object:
    return answer["refused"]["code"]


async def test_without_a_broker_checkpoints_are_saved_found_compared_and_exported(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").write_bytes(b"12345")
    whole = document(artifacts=[artifact("file", b"12345")], more={"x": [1.5, None, "é\n"]})
    async with stdio_peer(tmp_path / "run", "--root", str(root)) as peer:
        saved = (await peer.ask("checkpoint_save", {"checkpoint": whole}))["ok"]
        assert (saved["is_new"], saved["recorded"]) == (True, False)
        assert "no broker" in saved["why_not"]
        which = saved["info"]["checkpoint_id"]
        for name in (which, "implementation"):
            found = (await peer.ask("checkpoint_get", {"which": name, "verify": True}))["ok"]
            assert found == {"checkpoint": whole, "info": saved["info"], "differences": []}
        assert (await peer.ask("checkpoint_get", {"which": "none", "verify": True}))["ok"] == {
            "checkpoint": None,
            "info": None,
            "differences": [],
        }
        assert (await peer.ask("checkpoint_get", {"which": "implementation", "run_id": "x"}))["ok"][
            "checkpoint"
        ] is None
        assert (await peer.ask("checkpoint_list"))["ok"] == {"checkpoints": [saved["info"]], "damaged": []}
        assert (await peer.ask("checkpoint_list", {"name": "none"}))["ok"]["checkpoints"] == []
        assert (await peer.ask("checkpoint_export", {"which": "implementation"}))["ok"] == {
            "path": ".loa-checkpoint/implementation.yaml"
        }
        assert (await peer.ask("checkpoint_export", {"which": "none"}))["ok"] == {"path": None}
        (root / "file").write_bytes(b"123456")
        changed = (await peer.ask("checkpoint_get", {"which": which, "verify": True}))["ok"]["differences"]
        assert [(one["path"], one["kind"]) for one in changed] == [("file", "resized")]
        again = await peer.ask("checkpoint_save", {"checkpoint": whole})
        assert code(again) == "artifact_mismatch"
        wrong = await peer.ask("checkpoint_save", {"checkpoint": document(exit_code=3)})
        assert (code(wrong), wrong["refused"]["field"]) == ("against_contract", "$.exit_code")
        assert code(await peer.ask("checkpoint_save", {"checkpoint": {}, "kind": "other"})) == "unknown_kind"
    assert yaml.safe_load((root / ".loa-checkpoint" / "implementation.yaml").read_text()) == whole


async def test_with_a_broker_each_is_on_record(tmp_path: Path) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        async with stdio_peer(daemon, "--root", str(tmp_path)) as peer:
            body = {"checkpoint": document(), "session": ["codex", "s1"]}
            saved = (await peer.ask("checkpoint_save", body))["ok"]
            assert (saved["recorded"], saved["why_not"]) == (True, None)
        found = [one async for one in bus.receipts(session=("codex", "s1"), since="start", until_head=True)]
    assert [one.payload_receipts[0].payload_id for one in found] == [saved["info"]["checkpoint_id"]]


async def test_without_a_root_there_are_no_checkpoints(tmp_path: Path) -> None:
    async with stdio_peer(tmp_path / "run") as peer:
        assert code(await peer.ask("checkpoint_list")) == "no_root"
        assert code(await peer.ask("checkpoint_save", {"checkpoint": document()})) == "no_root"
