"""`lifebus flow`, as a person and a script read it: events, names, warnings, JSON, what to do next."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import anyio
import pytest

from lifebus import Bus
from lifebus.cli.errors import explain
from lifebus.cli.flows.common import submitted
from lifebus.cli.flows.run import FollowOptions, follow_run
from lifebus.cli.flows.run_printer import RunPrinter
from lifebus_contract import TransportError
from lifebus_contract.flows import FlowDefinition, StepDefinition
from lifebus_contract.questions import AnswerAction, Question, QuestionAnswer, QuestionInfo
from lifebus_contract.runs import ContextSignals, RunInfo, RunStatus, StepInfo, StepStatus, TryInfo
from lifebus_transports.messages.flows import RunSummary
from support.command_line import Shell, broker_up
from support.flow_files import AT_ONCE, HELD, process_of, tell, write
from support.patience import PATIENCE_S
from support.running import short_directory


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            yield shell


def test_people_read_of_phases_wherever_they_look(tmp_path: Path, shell: Shell) -> None:
    for group in ("flow", "inbox", "checkpoint"):
        words = shell.call(group, "--help").out
        names = re.findall(r"^  ([a-z]+)  ", words, re.MULTILINE)
        assert names
        for name in names:
            words += shell.call(group, name, "--help").out
        assert not re.findall(r"(?i)\bsteps?\b", words), group
    file = write(tmp_path, 'name = "one"\nshell = "exit 2"')
    assert shell.call("flow", "run", file, "--id", "words-1", "--until-asked").code == 4
    (question,) = shell.call("flow", "show", "words-1", "--json").json["questions"]
    looks = [("flow", "list"), ("flow", "show", "words-1"), ("inbox", "show", question["question"]["question_id"])]
    looks += [("flow", name, "words-1", "none") for name in ("logs", "retry", "signals")]
    for look in looks:
        ran = shell.call(*look)
        assert not re.findall(r"(?i)\bsteps?\b", ran.out + ran.err), look
        assert ran.code == 0 or "it has one" in ran.err, look


@pytest.mark.parametrize("name", ["unit.tests", "a.1", "x" * 64])
def test_what_a_phase_wrote_is_shown_whatever_its_name(shell: Shell, tmp_path: Path, name: str) -> None:
    file = write(tmp_path, f'name = "{name}"\nshell = "echo said; echo loud >&2"')
    assert shell.call("flow", "run", file, "--id", f"named-{name[:8]}").code == 0
    assert shell.call("flow", "logs", f"named-{name[:8]}", name).out == "said\n"
    assert shell.call("flow", "logs", f"named-{name[:8]}", name, "--stderr").out == "loud\n"


def test_what_happened_is_shown_by_the_standard_names_of_events(project: Path, shell: Shell) -> None:
    flaky = 'name = "flaky"\nshell = "test -e seen || { touch seen; exit 64; }"'
    blocked = 'name = "blocked"\nshell = "exit 2"'
    file = write(project, flaky, blocked, head=AT_ONCE)
    assert shell.call("flow", "run", file, "--id", "events-1", "--until-asked").code == 4
    lines = shell.call("flow", "logs", "events-1", "--events", "--json").lines
    assert all(set(one) == {"event", "timestamp", "phase", "data"} for one in lines)
    assert [(one["event"], one["phase"]) for one in lines if one["phase"] is not None] == [
        *(("phase_start", "flaky"), ("lifebus.try_failed", "flaky"), ("phase_start", "flaky")),
        *(("phase_complete", "flaky"), ("phase_start", "blocked"), ("lifebus.try_failed", "blocked")),
        ("escalation_triggered", "blocked"),
    ]
    assert [one["timestamp"] for one in lines] == sorted(one["timestamp"] for one in lines)
    shown = shell.call("flow", "logs", "events-1", "blocked", "--events").out.splitlines()
    assert [line.split()[1:3] for line in shown] == [
        [one["event"], "blocked"] for one in lines if one["phase"] == "blocked"
    ]
    assert shell.call("flow", "logs", "events-1", "none", "--events").code == 1
    assert shell.call("flow", "logs", "events-1", "--events", "--try", "1").code == 2
    assert shell.call("flow", "abort", "events-1").code == 0


def test_a_program_or_harness_that_is_not_there_is_said_and_refuses_nothing(tmp_path: Path, shell: Shell) -> None:
    prompt = 'name = "ask"\nharness = "gemini"\nprompt = "hello"\nmax_retries = 0\non_failure = "skip"'
    file = write(tmp_path, prompt, 'name = "go"\ncommand = ["no-such-program"]\non_failure = "skip"')
    said = [
        f"{file}: phase `ask`: there is no program `gemini` on the path",
        f"{file}: phase `go`: there is no program `no-such-program` on the path",
    ]
    checked = shell.call("flow", "check", file)
    assert (checked.code, checked.err.splitlines()) == (0, said)
    ran = shell.call("flow", "run", file, "--id", "absent-1")
    assert (ran.code, ran.err.splitlines()[:2]) == (0, said)
    here = shell.call("flow", "run", file, "--id", "absent-2", "--here")
    assert (here.code, here.err.splitlines()[:2]) == (0, said)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gemini").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "gemini").chmod(0o755)
    found = write(tmp_path, f'{prompt}\nenv = {{ PATH = "{tmp_path}/bin" }}', name="g.toml")
    assert shell.call("flow", "check", found).err == ""


def test_an_interrupted_run_says_what_it_asks_and_how_it_goes_on(project: Path, shell: Shell) -> None:
    file = write(project, 'name = "blocked"\nshell = "exit 2"', f"{HELD}\nneeds = []", head="max_parallel = 2\n")
    with shell.started("flow", "run", file, "--here", "--id", "asleep-1") as running:
        process_of(project)
        assert any(b"q_asleep-1_blocked_1 retry" in line for line in running.stdout or ())
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 130
    shown = shell.call("flow", "show", "asleep-1")
    assert "interrupted" in shown.out
    assert "  lifebus inbox answer q_asleep-1_blocked_1 proceed\n" in shown.out
    assert "answer now or later: `lifebus flow resume asleep-1` goes on" in shown.err
    assert shell.call("inbox", "answer", "q_asleep-1_blocked", "proceed").code == 0
    answered = shell.call("flow", "show", "asleep-1")
    assert ("inbox answer" in answered.out, answered.err) == (False, "`lifebus flow resume asleep-1` goes on\n")
    with shell.started("flow", "resume", "asleep-1") as following:
        process_of(project)
        tell(project)
        assert following.wait(PATIENCE_S) == 0


def test_runs_and_questions_are_named_by_a_beginning_that_only_one_has(tmp_path: Path, shell: Shell) -> None:
    for name in ("twin-a", "twin-b"):
        (tmp_path / name).mkdir()
        file = write(tmp_path / name, 'name = "one"\nshell = "exit 2"')
        assert shell.call("flow", "run", file, "--id", name, "--until-asked").code == 4
    several = (
        *((("flow", word, "twin"), "twin-b, twin-a") for word in ("show", "resume", "abort", "logs", "signals")),
        (("flow", "retry", "twin", "one"), "twin-b, twin-a"),
        *(
            (("inbox", *words), "q_twin-a_one_1, q_twin-b_one_1")
            for words in (["show", "q_twin"], ["answer", "q_", "retry"])
        ),
    )
    for words, candidates in several:
        refused = shell.call(*words)
        assert refused.code == 2, words
        assert all(one in refused.err for one in candidates.split(", ")), words
    assert shell.call("inbox", "show", "q_twin-a", "--json").json["question"]["question_id"] == "q_twin-a_one_1"
    # The second question of a phase has another id, and the one that waits is meant.
    assert shell.call("inbox", "answer", "q_twin-a", "retry").code == 0
    assert shell.call("flow", "resume", "twin-a", "--until-asked").code == 4
    assert (
        shell.call("inbox", "answer", "q_twin-a", "abort", "--json").json["question"]["question_id"] == "q_twin-a_one_2"
    )
    assert shell.call("flow", "abort", "twin-b").code == 0
    assert shell.call("inbox", "show", "q_none").code == 1


def test_a_run_is_named_by_its_flow_or_by_the_beginning_of_its_id(tmp_path: Path, shell: Shell) -> None:
    file = write(tmp_path, 'name = "one"\ncommand = ["true"]', name="named.toml")
    assert shell.call("flow", "run", file, "--id", "xyz-1").code == 0
    for word in ("xyz-1", "xyz", "named"):
        assert shell.call("flow", "show", word, "--json").json["run"]["run_id"] == "xyz-1"
    missing = shell.call("flow", "show", "nothing")
    # As of a phase or a question that is not there.
    assert (missing.code, missing.err.count("lifebus flow list")) == (1, 1)
    begun = shell.call("flow", "run", file, "--detach")
    assert begun.code == 0
    assert re.fullmatch(r"named-[0-9a-z]{8}\n", begun.out)


def test_json_has_every_field_with_its_usual_value_too(tmp_path: Path, shell: Shell) -> None:
    file = write(tmp_path, 'name = "one"\nshell = "exit 2"')
    ran = shell.call("flow", "run", file, "--id", "whole-1", "--until-asked", "--json")
    shown = shell.call("flow", "show", "whole-1", "--json").json
    (listed,) = [one for one in shell.call("flow", "list", "--json").json if one["run_id"] == "whole-1"]
    (info,) = shown["questions"]
    found = [
        *((ran.lines[-1], RunInfo), (shown["run"], RunInfo), (shown["run"]["steps"][0], StepInfo)),
        *((shown["run"]["steps"][0]["tries"][0], TryInfo), (shown["definition"], FlowDefinition)),
        *((shown["definition"]["steps"][0], StepDefinition), (listed, RunSummary), (info, QuestionInfo)),
        *((info["question"], Question), (shell.call("inbox", "list", "--json").json[-1], QuestionInfo)),
        (shell.call("inbox", "show", info["question"]["question_id"], "--json").json["question"], Question),
        (shell.call("flow", "check", file, "--json").json["flow"], FlowDefinition),
        (shell.call("flow", "signals", "whole-1").json, ContextSignals),
        (shell.call("flow", "abort", "whole-1", "--json").json, RunInfo),
    ]
    for document, kind in found:
        assert list(document) == list(kind.__struct_encode_fields__), kind


class GoneBus:
    """A bus whose broker dies while it is asked."""

    @property
    def flows(self) -> "GoneBus":
        return self

    async def submit(self, *_: object, **__: object) -> RunInfo:
        raise TransportError("the broker is gone", code="no_broker")


@pytest.mark.parametrize(("owner", "words"), [(None, ""), ("here-1", " --here")])
def test_a_submission_of_which_nothing_is_known_says_how_to_repeat_it(owner: str | None, words: str) -> None:
    flow = FlowDefinition(name="f", client_id="c", root="/r", steps=(StepDefinition(step_id="a", command=("x",)),))
    with pytest.raises(TransportError) as raised:
        anyio.run(submitted, cast("Bus", GoneBus()), flow, "sent-1", Path("my flow.toml"), owner)
    code, lines = explain(raised.value)
    assert (code, lines[0]) == (69, "the broker is gone")
    assert f"`lifebus flow run 'my flow.toml' --id sent-1{words}` is the same run" in lines[1]


class BehindBus:
    """A bus whose run has not yet taken the answer to its first question, and asks a second one afterwards."""

    def __init__(self) -> None:
        self.waited_from: list[int] = []

    @property
    def flows(self) -> "BehindBus":
        return self

    inbox = flows

    async def wait(self, run_id: str, number: int) -> RunInfo:
        self.waited_from.append(number)
        return waiting_run(run_id, number + 1, "q_second")

    async def show(self, question_id: str) -> QuestionInfo:
        question = Question(question_id=question_id, client_id="c", title="Go on?", reason="why", asked_at_ms=1)
        answer = QuestionAnswer(action=AnswerAction.PROCEED, responder="me", responded_at_ms=2)
        return QuestionInfo(question=question, answer=answer if question_id == "q_first" else None)


def waiting_run(run_id: str, number: int, question_id: str) -> RunInfo:
    step = StepInfo(step_id="a", status=StepStatus.ASKING, question_id=question_id)
    return RunInfo(
        run_id=run_id,
        name="f",
        client_id="c",
        root="/r",
        owner="broker",
        status=RunStatus.WAITING,
        started_at_ms=1,
        steps=(step,),
        number=number,
    )


@pytest.mark.parametrize("json", [False, True])
def test_a_question_that_was_just_answered_does_not_end_the_following(
    json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = FlowDefinition(name="f", client_id="c", root="/r", steps=(StepDefinition(step_id="a", command=("x",)),))
    bus, printer = BehindBus(), RunPrinter(flow, json=json)
    options = FollowOptions(until_asked=True)
    code = anyio.run(follow_run, cast("Bus", bus), waiting_run("behind-1", 5, "q_first"), printer, options)
    assert (code, bus.waited_from) == (4, [5])
    assert "q_second" in capsys.readouterr().out


def test_json_is_one_whole_run_a_line(tmp_path: Path, shell: Shell) -> None:
    file = write(tmp_path, 'name = "one"\ncommand = ["true"]')
    ran = shell.call("flow", "run", file, "--json", "--id", "lines-1")
    assert {one["run_id"] for one in ran.lines} == {"lines-1"}
    assert ran.lines[-1]["status"] == "completed"
