"""The suite against a runtime that has nothing to do with lifebus, right as it is and wrong in one thing at a time."""

import sys

import pytest

from lifebus.loa.conformance.check import CHECKLIST, CheckVerdict, Finding
from lifebus.loa.conformance.checks import CHECKS
from lifebus.loa.conformance.suite import GROUND, checklist, examine, selected
from support.effort import effort
from support.loa.plain_runtime import PLAIN, SMALL

EVERYTHING: tuple[str, ...] = ()


async def _examine(*arguments: str, only: tuple[str, ...] = EVERYTHING, deadline_s: float = 30.0) -> dict[str, Finding]:
    found = await examine([*PLAIN, *arguments], only=only, deadline_s=deadline_s)
    return {finding.check: finding for finding in found}


async def test_a_runtime_that_keeps_the_contract_passes_every_check() -> None:
    found = await _examine()
    assert {
        name: finding.evidence for name, finding in found.items() if finding.verdict is not CheckVerdict.PASSED
    } == {}
    assert list(found) == [check.name for check in selected()]
    assert all(done for _, _, done in checklist(list(found.values())))


@pytest.mark.parametrize("wrong", [check.name for check in CHECKS])
async def test_a_runtime_that_is_wrong_in_one_thing_fails_that_check_alone(wrong: str) -> None:
    # At length beside every other check; otherwise beside what it builds on.
    found = await _examine(wrong, only=EVERYTHING if effort(0, 1) else (wrong,), deadline_s=effort(4, 10))
    assert [name for name, finding in found.items() if finding.verdict is CheckVerdict.FAILED] == [wrong]
    # Nothing else is left unsaid but what builds on it.
    after = {wrong}
    for check in selected():
        if wrong == GROUND or after & set(check.needs):
            after.add(check.name)
    assert {name for name, finding in found.items() if finding.verdict is CheckVerdict.NOT_JUDGED} <= after - {wrong}


def test_every_line_of_the_contracts_checklist_has_checks() -> None:
    items = {(check.level, check.item) for check in CHECKS}
    assert {(level, item) for level, lines in CHECKLIST.items() for item in lines} <= items
    ours = [check.name for check in CHECKS if check.item not in CHECKLIST[check.level]]
    assert ours == ["protocol.initialize", "protocol.unknown_method"]


def test_what_a_check_needs_runs_before_it() -> None:
    order = [check.name for check in selected()]
    for check in selected():
        assert all(order.index(needed) < order.index(check.name) for needed in check.needs)


async def test_an_optional_capability_that_a_runtime_does_without_is_no_failure() -> None:
    only = ("codes.sysexits", "compaction.", "logging.events", "costs.total")
    verdicts = {name: finding.verdict for name, finding in (await _examine(SMALL, only=only)).items()}
    assert {verdicts[name] for name in verdicts if name.startswith(only)} == {CheckVerdict.ABSENT}


@pytest.mark.parametrize(
    ("program", "evidence"),
    [
        ("raise SystemExit('no good')", "ended with code 1; its stderr ends: no good"),
        ("print('hello', flush=True); input(); input()", "no answer: b'hello'"),
        ("import sys; sys.stdin.read()", "no answer to `initialize`"),
    ],
)
async def test_a_program_that_speaks_no_protocol_fails_the_first_check_and_nothing_else_is_judged(
    program: str, evidence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lifebus.loa.conformance.scene.START_S", 1.0)
    first, *others = await examine([sys.executable, "-c", program], deadline_s=0.5, only=("codes.success",))
    assert (first.check, first.verdict) == (GROUND, CheckVerdict.FAILED)
    assert evidence in first.evidence
    assert {finding.verdict for finding in others} == {CheckVerdict.NOT_JUDGED}


async def test_a_runtime_that_says_it_wrote_and_did_not_fails_that_check_and_the_others_are_judged() -> None:
    program = """import json, sys
for line in sys.stdin:
    request = json.loads(line)
    result = {"name": "idle", "version": "1", "contract": "1.0.0", "capabilities": []}
    print(json.dumps({"id": request["id"], "result": result if request["method"] == "initialize" else {}}), flush=True)
"""
    found = {
        one.check: one for one in await examine([sys.executable, "-c", program], only=("files.write", "files.list"))
    }
    assert found["files.write"].verdict is CheckVerdict.FAILED
    assert "not what was written" in found["files.write"].evidence
    assert found["files.list"].verdict is CheckVerdict.FAILED


async def test_a_program_that_is_not_there_is_said_to_be_so() -> None:
    first, *_ = await examine(["/no/such/program"], only=("codes.success",))
    assert first.evidence == "`/no/such/program` cannot be started: No such file or directory"
