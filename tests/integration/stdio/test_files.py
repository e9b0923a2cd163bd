"""Files beneath the root of `dev stdio`, without a broker: what an editor writes is there, and nothing outside."""

from pathlib import Path
from typing import Any

from lifebus_transports.framing.json_lines import MAX_LINE
from support.command_line import Shell
from support.integration.stdio_peers import stdio_peer


def code(answer: dict[str, Any]) -> object:
    return answer["refused"]["code"]


async def test_files_are_read_and_written_beneath_the_root_alone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    (root / "link").symlink_to("../secret")
    text = 'one\r\n"two"\t\N{SNOWMAN}\N{GRINNING FACE}\0'
    async with stdio_peer(tmp_path / "run", "--root", str(root)) as peer:
        written = await peer.ask("write", {"path": "a/b.md", "content": text})
        assert (root / "a" / "b.md").read_bytes() == text.encode()
        assert written["ok"]["byte_size"] == len(text.encode())
        assert (await peer.ask("read", {"path": "a/b.md"}))["ok"] == {"content": text}
        assert (await peer.ask("exists", {"path": "a/b.md"}))["ok"] == {"exists": True}
        assert (await peer.ask("exists", {"path": "a/c.md"}))["ok"] == {"exists": False}
        assert (await peer.ask("list", {"directory": "a"}))["ok"] == {"names": ["b.md"]}
        assert (await peer.ask("list"))["ok"] == {"names": ["a", "link"]}
        assert (await peer.ask("delete", {"path": "a/b.md"}))["ok"] == {}
        assert code(await peer.ask("read", {"path": "a/b.md"})) == "no_file"
        for verb in ("read", "exists", "delete"):
            assert code(await peer.ask(verb, {"path": "../secret"})) == "path_outside"
            assert code(await peer.ask(verb, {"path": "link"})) == "path_is_link"
            assert code(await peer.ask(verb, {"path": str(tmp_path / "secret")})) == "path_outside"
        refused = await peer.ask("write", {"path": "link", "content": ""})
        assert refused["refused"]["failure_class"] == "invalid_request"
        assert refused["refused"]["field"] == "$.path"
        assert code(await peer.ask("list", {"directory": ".."})) == "path_outside"
        assert code(await peer.ask("write", {"path": "a"})) == "against_contract"
        assert code(await peer.ask("read", {"path": "a", "more": 1})) == "unknown_key"
        assert code(await peer.ask("ping")) == "no_broker"
    assert (tmp_path / "secret").read_text() == "secret"


async def test_what_does_not_fit_into_a_line_is_refused_and_the_next_question_answered(tmp_path: Path) -> None:
    (tmp_path / "fits").write_text("x" * (MAX_LINE - 100))
    # Every character takes six in JSON.
    (tmp_path / "grows").write_text("\1" * (MAX_LINE // 2))
    (tmp_path / "large").write_text("x" * (MAX_LINE + 1))
    async with stdio_peer(tmp_path / "run", "--root", str(tmp_path)) as peer:
        assert len((await peer.ask("read", {"path": "fits"}))["ok"]["content"]) == MAX_LINE - 100
        assert code(await peer.ask("read", {"path": "grows"})) == "file_too_large"
        assert code(await peer.ask("read", {"path": "large"})) == "file_too_large"
        assert (await peer.ask("exists", {"path": "large"}))["ok"] == {"exists": True}


async def test_without_a_root_there_are_no_files(tmp_path: Path) -> None:
    async with stdio_peer(tmp_path / "run") as peer:
        for verb in ("read", "write", "exists", "list", "delete"):
            body = {"path": "a"} | ({"content": ""} if verb == "write" else {})
            assert code(await peer.ask(verb, {} if verb == "list" else body)) == "no_root"


def test_a_root_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    ran = Shell(tmp_path).call("dev", "stdio", "--root", str(tmp_path / "none"))
    assert ran.code == 74
    assert "none cannot be opened: No such file or directory" in ran.err


def test_in_a_step_of_a_flow_the_root_is_that_of_its_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    shell = Shell(tmp_path, LIFEBUS_FLOW_ROOT=str(tmp_path))
    ran = shell.run("dev", "stdio", stdin=b'{"id":1,"verb":"read","body":{"path":"file"}}\n')
    assert (ran.code, ran.lines) == (0, [{"id": 1, "ok": {"content": "here"}}])
