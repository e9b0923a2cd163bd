"""What the README says is true: its example runs, its commands and files exist, its table is that of the manifests."""

import os
import re
import sys
from pathlib import Path

import anyio
import pytest

from harness_matrix import README, matrix, split
from running import running_bus

REPOSITORY = README.parent
DOCUMENTS = [README, *sorted(REPOSITORY.glob("docs/*.md")), REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "SECURITY.md"]


def examples(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


async def test_the_example_runs_against_a_real_broker() -> None:
    (example,) = examples(README.read_text())
    async with running_bus() as daemon:
        environment = os.environ | {"LIFEBUS_RUNTIME_DIR": str(daemon.settings.runtime_dir)}
        with anyio.fail_after(20):
            done = await anyio.run_process([sys.executable, "-c", example], env=environment)

    assert done.stdout.decode() == "1 session.started observed\n"
    assert len([line for line in example.splitlines() if line]) <= 10


def test_the_table_of_harnesses_is_that_of_the_manifests() -> None:
    assert split(README.read_text())[1] == matrix()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_names_exists(document: Path) -> None:
    named = re.findall(r"`((?:broker|transports|supervisor|clients|tests|bench|docs)/[\w/.]*)`", document.read_text())
    assert [name for name in named if not (REPOSITORY / name).exists()] == []


def test_every_make_target_that_the_documents_name_exists() -> None:
    targets = set(re.findall(r"^(\w+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    named = {word for document in DOCUMENTS for word in re.findall(r"\bmake (\w+)", code_of(document.read_text()))}
    assert named - targets == set()
    assert "test" in named


def code_of(text: str) -> str:
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
