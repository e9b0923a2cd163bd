"""The programs of the documentation pass `mypy --strict` in an environment in which lifebus is installed."""

from pathlib import Path

import pytest

from support.client_environment import build
from support.paths import REPOSITORY
from support.user_environment import check, environment, programs

WRONG = """
import lifebus

async def main(bus: lifebus.Bus) -> None:
    async for receipt in bus.receipts(gaps="yield"):
        print(receipt.sequence)
    async for other in bus.receipts():
        other.seqence
    bus.signals(since=1.5)
    lifebus.FrameContext(frame_id="f", frame_class="top_level")
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("user")
    return environment(directory / "venv", build(REPOSITORY, directory / "wheel"))


def test_every_program_of_the_documentation_passes_strict_checks(python: Path, tmp_path: Path) -> None:
    found = programs(tmp_path)
    assert {"readme_md_1.py", "docs_start_md_1.py", "docs_examples_follow_py.py"} < {path.name for path in found}
    code, said = check(python, *found)
    assert said == f"Success: no issues found in {len(found)} source files\n"
    assert code == 0


def test_what_a_user_gets_wrong_is_found(python: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    code, said = check(python, tmp_path / "wrong.py")
    assert code == 1
    assert [line.rpartition("[")[2] for line in said.splitlines()[:-1] if ": error:" in line] == [
        "union-attr]",
        "attr-defined]",
        "call-overload]",
        "arg-type]",
    ]
