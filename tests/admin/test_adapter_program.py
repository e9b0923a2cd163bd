"""Adapter programs that do not keep the protocol: always a finding, in time, and nothing is left running."""

import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from lifebus_adapters.conformance import CheckFinding
from lifebus_admin.adapter_program import examine_program
from lifebus_transports.processes.json_lines import MAX_ANSWER_BYTES, JsonLines, ProgramFault
from support.paths import EXAMPLES
from support.patience import PATIENCE_S

EXAMPLE = EXAMPLES / "adapter" / "program.py"
QUICK_S = 0.5


def program(text: str) -> list[str]:
    return [sys.executable, "-I", "-c", textwrap.dedent(text)]


def refused(text: str, deadline_s: float = PATIENCE_S) -> str:
    lines = JsonLines(program(text), deadline_s)
    try:
        with pytest.raises(ProgramFault) as fault:
            lines.ask({"verb": "manifest"})
    finally:
        lines.kill()
    return str(fault.value)


def failed(findings: list[CheckFinding]) -> dict[str, str]:
    return {finding.name: finding.evidence for finding in findings if not finding.ok}


def test_the_example_program_passes_every_check() -> None:
    findings = examine_program([sys.executable, "-I", str(EXAMPLE)], PATIENCE_S)
    assert failed(findings) == {}
    assert findings[-1].name == "program.ends"
    assert len(findings) == 33


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "without an answer"),
        ("input(); print('hello')", "no strict JSON"),
        ("input(); print('[]')", "not an object"),
        ("input(); print('{}\\n{}')", "more than one line"),
        ('input(); print(\'{"ok":1,"ok":2}\')', "duplicate key"),
        ("input(); print('{\"ok\":NaN}')", "not JSON"),
        ("import os; os.close(1); input(); input()", "without an answer"),
        (f"input(); print('x' * {MAX_ANSWER_BYTES + 1})", "an answer of more than"),
        ("import sys; input(); sys.stdout.write('x' * 1000); sys.stdout.flush(); input()", "no answer within"),
        ("import time; time.sleep(60)", "no answer within"),
    ],
)
def test_what_is_no_answer_is_a_fault_that_says_so(text: str, why: str) -> None:
    assert why in refused(text, QUICK_S if why == "no answer within" else PATIENCE_S)


def test_a_command_that_is_none_is_a_fault() -> None:
    with pytest.raises(ProgramFault, match="cannot be started"):
        JsonLines(["/no/such/program"], PATIENCE_S).ask({})


def test_a_large_question_and_a_large_answer_pass_each_other() -> None:
    echo = """
        import sys
        for line in sys.stdin:
            print('{"size":%d,"text":"%s"}' % (len(line), "y" * 1_000_000), flush=True)
    """
    lines = JsonLines(program(echo), PATIENCE_S)
    answer = lines.ask({"text": "x" * 1_500_000})
    assert answer["size"] > 1_500_000
    assert lines.ask({"text": ""})["text"] == "y" * 1_000_000
    assert lines.finish() == 0


def test_a_program_that_breaks_off_is_started_again_a_few_times() -> None:
    lines = JsonLines(program("input(); print('{}', flush=True)"), PATIENCE_S)
    answers = faults = 0
    for _ in range(40):
        try:
            lines.ask({})
            answers += 1
        except ProgramFault:
            faults += 1
    assert (answers, answers + faults) == (8, 40)


def test_what_a_program_has_started_ends_with_it() -> None:
    lines = JsonLines(
        program("""
            import subprocess, sys
            child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
            input(); print('{"child":%d}' % child.pid, flush=True); input()
        """),
        PATIENCE_S,
    )
    child = psutil.Process(lines.ask({})["child"])
    lines.kill()
    child.wait(PATIENCE_S)
    assert not child.is_running()


def test_a_program_that_never_ends_gets_that_finding(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        EXAMPLE.read_text().replace("HERE = Path(__file__).parent", f"HERE = Path({str(EXAMPLE.parent)!r})")
        + "\nimport time\ntime.sleep(600)\n"
    )
    began = time.monotonic()
    findings = examine_program([sys.executable, "-I", str(tmp_path / "program.py")], PATIENCE_S)
    assert failed(findings) == {"program.ends": "when its input ends, it goes on"}
    assert time.monotonic() - began < PATIENCE_S


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        (
            '"idempotency_key": f"{call_id}:{event}"',
            '"idempotency_key": "same"',
            "reading.keys_are_distinct_and_stable",
        ),
        ('"session.started")', ")", "reading.events_are_the_expected_ones"),
        ('raise OverflowError("too much context")', "pass", "rendering.limits_are_kept"),
        ('json.dumps({"context": context})', "context", "rendering.answers_are_exact"),
        ('"event_id": call_id', '"event_id": ""', "reading.messages_are_valid"),
    ],
)
def test_a_program_that_breaks_a_rule_is_caught(tmp_path: Path, old: str, new: str, check: str) -> None:
    text = EXAMPLE.read_text()
    assert old in text
    text = text.replace(old, new).replace("Path(__file__).parent", f"Path({str(EXAMPLE.parent)!r})")
    (tmp_path / "program.py").write_text(text)
    assert check in failed(examine_program([sys.executable, "-I", str(tmp_path / "program.py")], PATIENCE_S))


@pytest.mark.parametrize(
    "answer", ["{}", '{"ok":1,"refused":2}', '{"ok":{}}', '{"refused":{}}', '{"refused":{"failure_class":"x"}}']
)
def test_a_program_without_a_manifest_is_one_finding(answer: str) -> None:
    findings = examine_program(program(f"while input(): print('{answer}', flush=True)"), PATIENCE_S)
    assert [(finding.name, finding.ok) for finding in findings] == [("program.answers", False)]
    assert findings[0].evidence
