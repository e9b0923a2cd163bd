"""docs/flows.md: its examples are run, its tables are those of the code."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import msgspec

from lifebus.cli.flows.common import exit_of
from lifebus.flows import parse_flow
from lifebus.flows.compiling import DEFAULT_PASSED
from lifebus.flows.tables import CommonTable, FlowTable, PhaseTable
from lifebus.loa.codes import CODES
from lifebus_contract.flows import StepDefinition
from lifebus_contract.questions import AnswerAction
from lifebus_contract.runs import RunInfo, RunStatus, StepStatus
from support.paths import DOCS, REPOSITORY
from support.patience import PATIENCE_S
from support.running import connected, running_bus

TEXT = (DOCS / "flows.md").read_text()
MAKEFILE = """\
build:
\tmkdir -p dist && echo built > dist/app.tar
unit lint:
\techo $@ >> made
publish:
\tcp dist/app.tar published
"""


def examples() -> Iterator[tuple[str, str]]:
    yield from re.findall(r"<!-- example: (.+?) -->\n```toml\n(.*?)```", TEXT, re.DOTALL)


def section(head: str) -> str:
    return TEXT.partition(f"\n{head}\n")[2].partition("\n## ")[0]


async def run(path: Path, answer: Callable[[str], tuple[AnswerAction, dict[str, object]]]) -> RunInfo:
    """Run a flow file, answering what it asks, and return how it ended."""
    async with running_bus() as daemon, connected(daemon) as bus:
        with anyio.fail_after(PATIENCE_S):
            begun = await bus.flows.submit(path)
            answered: set[str] = set()
            async for found in bus.flows.follow(begun.run_id):
                for question in {one.question_id for one in found.steps if one.question_id} - answered:
                    answered.add(question)
                    action, values = answer(question)
                    await bus.inbox.answer(question, action, modifications=values, responder="test")
            return (await bus.flows.show(begun.run_id)).run


async def test_the_first_example_releases_once_somebody_agrees(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "release.toml").write_text(dict(examples())["release"])
    asked: list[str] = []

    def answer(question: str) -> tuple[AnswerAction, dict[str, object]]:
        asked.append(question)
        assert not (tmp_path / "published").exists()
        return AnswerAction.PROCEED, {}

    found = await run(tmp_path / "release.toml", answer)

    assert (found.status, [one.status for one in found.steps]) == (RunStatus.COMPLETED, [StepStatus.DONE] * 4)
    assert (tmp_path / "published").read_text() == "built\n"
    assert sorted((tmp_path / "made").read_text().split()) == ["lint", "unit"]
    assert ["publish" in one for one in asked] == [True]


async def test_the_example_that_asks_goes_on_with_another_value(tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text(dict(examples())["audit"])
    found = await run(tmp_path / "audit.toml", lambda _: (AnswerAction.MODIFY, {"LEVEL": "lax"}))
    assert found.status is RunStatus.COMPLETED
    assert [one.outcome.code for one in found.steps[0].tries if one.outcome] == [2, 0]
    assert "password" in found.steps[0].tries[0].tail
    assert (tmp_path / "report.txt").read_text() == "audited\n"


def test_every_example_is_run_or_checked() -> None:
    assert [name for name, _ in examples()] == ["release", "review (checked only)", "audit"]
    assert len(re.findall(r"```toml", TEXT)) == 3
    flow = parse_flow(dict(examples())["review (checked only)"].encode(), Path("/a/review.toml"), harnesses=["claude"])
    assert flow.steps[0].prompt is not None


async def test_the_example_of_the_readme_is_run(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    assert len([line for line in example.splitlines() if line]) <= 10
    (tmp_path / "release.toml").write_text(example)
    found = await run(tmp_path / "release.toml", lambda _: (AnswerAction.PROCEED, {}))
    assert found.status is RunStatus.COMPLETED
    assert (tmp_path / "published").read_text() == (tmp_path / "dist" / "app").read_text() != ""


def test_every_key_of_a_file_is_documented_with_what_it_is_without_it() -> None:
    text = section("## The flow file").partition("| key of a phase |")
    of_file = rows(text[0])
    of_phase = rows(text[2])
    assert set(of_file) == {field.name for field in msgspec.structs.fields(FlowTable)}
    assert set(of_phase) == {field.name for field in msgspec.structs.fields(PhaseTable)}
    general = {name for name, line in of_phase.items() if "(also in `defaults`" in line}
    assert general == {field.name for field in msgspec.structs.fields(CommonTable)}
    step = StepDefinition(step_id="x", command=("x",))
    assert f"| `{step.max_retries}` |" in of_phase["max_retries"]
    assert f"| `{step.grace_ms // 1000}s` |" in of_phase["grace"]
    assert ", ".join(f"`{one}`" for one in DEFAULT_PASSED) in of_phase["pass_env"]


def rows(text: str) -> dict[str, str]:
    """Return the lines of a table by the keys that they begin with."""
    return {
        key: line
        for line in text.splitlines()
        if line.startswith("| `")
        for key in re.findall(r"`(\w+)`", line.split(" | ")[0])
    }


def test_the_table_of_codes_is_that_of_the_map() -> None:
    written = dict(re.findall(r"^\| (`.+?`) \| `(\w+)` \|", section("## Exit codes"), re.MULTILINE))
    others = ("unknown", "signalled", "timed_out", "cannot_start", "unverified")
    assert {name: written[f"`{name}`"] for name in others} == {name: getattr(CODES, name).value for name in others}
    spans = {"`0`": [0], "`1`": [1], "`2`": [2], "`64` to `78`": range(64, 79), "`126`, `127`": [126, 127]}
    for span, codes in spans.items():
        assert {rule.verdict.value for rule in CODES.rules for code in codes if rule.first <= code <= rule.last} == {
            written[span]
        }
    assert set(written) == {*spans, *(f"`{name}`" for name in others)}


def test_the_states_in_the_tables_are_those_of_the_contract() -> None:
    text = section("## States")
    named = {word for row in re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE) for word in re.findall(r"`(\w+)`", row)}
    assert named == {*(one.value for one in StepStatus), *(one.value for one in RunStatus)}


def test_the_exit_codes_in_the_table_are_those_of_how_a_run_ends() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| (.+?) \|$", section("## Running a flow"), re.MULTILINE))
    words = {"completed": "completed", "failed": "failed", "aborted": "aborted"}
    for status, word in {**words, "waiting": "waits", "interrupted": "nobody"}.items():
        run = RunInfo(
            run_id="r", name="f", client_id="c", root="/", owner="o", status=RunStatus(status), started_at_ms=0
        )
        assert word in rows[str(int(exit_of(run)))]


async def test_the_example_of_the_library_follows_a_run_to_its_end(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", section("## The library"), re.DOTALL)
    (tmp_path / "release.toml").write_text('[[phases]]\nname = "one"\ncommand = ["true"]\n')
    async with running_bus() as daemon:
        environment = os.environ | {"LIFEBUS_RUNTIME_DIR": str(daemon.settings.runtime_dir)}
        program = f"import asyncio\n{example}\nprint(asyncio.run(release()))"
        with anyio.fail_after(PATIENCE_S):
            done = await anyio.run_process([sys.executable, "-c", program], env=environment, cwd=tmp_path)
    assert done.stdout.decode().splitlines()[-2:] == ["completed []", "True"]
