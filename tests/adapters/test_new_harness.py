"""A seventh harness is one folder and one line: `docs/examples/harness.py`, added to a copy of the adapters."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lifebus_adapters
from support.command_line import Shell
from support.paths import EXAMPLES
from support.patience import PATIENCE_S

LAST_LINE = '    "openclaw",\n'

READ_AND_RENDER = """
import sys
import msgspec
from lifebus_adapters import ADAPTERS
from lifebus_adapters.conformance.builtin import builtin_subject
from lifebus_adapters.conformance.examples import call_of, ids_for
from lifebus_adapters.conformance.subject import deliver
from lifebus_contract import ManifestPlacementClass

tiny = ADAPTERS["tiny"]
(example,) = [one for one in builtin_subject("tiny").examples if one.hook == "prompt"]
call = call_of(example, "tiny")
reading = tiny.read(call, ids_for(call))
answer = tiny.render(call, [deliver("remember", ManifestPlacementClass.PRE_FRAME_TRAILING)])
found = {
    "ids": list(ADAPTERS),
    "session": reading.session,
    "events": [one.request.event for one in reading.emissions],
    "answer": msgspec.json.decode(answer.stdout),
}
sys.stdout.buffer.write(msgspec.json.encode(found))
"""


@pytest.fixture(scope="module")
def with_tiny(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A shell in which the adapters have the harness `tiny`, too."""
    root = tmp_path_factory.mktemp("with_tiny")
    package = root / "lifebus_adapters"
    shutil.copytree(Path(lifebus_adapters.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))

    (package / "tiny").mkdir()
    shutil.copy(EXAMPLES / "harness.py", package / "tiny" / "__init__.py")
    for name in ("manifest.json", "examples.jsonl"):
        shutil.copy(EXAMPLES / "adapter" / name, package / "tiny" / name)

    text = (package / "__init__.py").read_text()
    assert text.count(LAST_LINE) == 1
    (package / "__init__.py").write_text(text.replace(LAST_LINE, LAST_LINE + '    "tiny",\n'))
    return Shell(root, PYTHONPATH=str(root))


def test_it_is_read_and_rendered_by_its_table(with_tiny: Shell) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", READ_AND_RENDER],
        env=with_tiny.environment,
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    found = json.loads(ran.stdout)
    context = json.loads(found.pop("answer")["context"])
    assert found == {
        "ids": [*lifebus_adapters.ADAPTERS, "tiny"],
        "session": "session-1",
        "events": ["frame.opening", "frame.opened"],
    }
    assert [payload["body"] for payload in context["payloads"]] == ["remember"]


def test_its_manifest_is_listed_and_shown(with_tiny: Shell) -> None:
    listed = with_tiny.run("contract", "manifest", "list", "--json", smoke=True).json
    assert [one["adapter"] for one in listed] == [*lifebus_adapters.ADAPTERS, "tiny", "flow"]
    shown = with_tiny.run("contract", "manifest", "show", "tiny", "--json", smoke=True)
    assert shown.json["display_name"] == "Tiny"


def test_the_conformance_suite_runs_on_it_and_passes(with_tiny: Shell) -> None:
    ran = with_tiny.run("contract", "conform", "tiny", "--json", smoke=True)
    assert [one["name"] for one in ran.json if not one["ok"]] == []
    assert (ran.code, len(ran.json)) == (0, 32)


def test_its_hooks_are_planned_installed_and_found_again(with_tiny: Shell) -> None:
    settings = with_tiny.directory / ".tiny" / "settings.json"
    plan = with_tiny.run("hooks", "plan", "tiny", smoke=True)
    assert plan.code == 0, plan.err
    assert str(settings) in plan.out
    assert not settings.exists()

    assert with_tiny.run("hooks", "install", "tiny", "--yes", smoke=True).code == 0
    assert list(json.loads(settings.read_text())["hooks"]) == ["start", "prompt", "done"]
    (installation,) = with_tiny.run("hooks", "status", "--json", smoke=True).json["installations"]
    assert (installation["target"]["adapter_id"], installation["hooks"]) == ("tiny", ["start", "prompt", "done"])
    assert installation["sound"]


def test_its_launcher_wrapper_and_skill_are_planned_too(with_tiny: Shell) -> None:
    wrapper = with_tiny.run("hooks", "plan", "tiny", "--mode", "launcher_wrapper", smoke=True)
    skill = with_tiny.run("hooks", "plan", "tiny", "--mode", "manual_skill", smoke=True)
    assert "lifebus-run-tiny" in wrapper.out
    assert ".tiny/skills/lifebus/SKILL.md" in skill.out
