"""`lifebus flow`, beside a running broker: what is run, shown, and said by exit codes."""

import re
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.command_line import Shell, broker_up
from support.flow_files import AT_ONCE, HELD, process_of, tell, write
from support.leftovers import has_ended
from support.patience import PATIENCE_S
from support.running import short_directory


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            yield shell


def test_a_file_is_explained_or_its_mistakes_are(tmp_path: Path, alone: Shell) -> None:
    good = write(tmp_path, 'name = "one"\nshell = "true && false"', 'name = "two"\ncommand = ["./missing"]')
    ran = alone.call("flow", "check", good)
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "valid: f, 2 phases, one at a time"
    assert re.search(r"^two +one +\./missing +4 ", ran.out, re.MULTILINE)
    assert f"phase `two`: {tmp_path}/missing does not exist yet" in ran.err
    assert alone.call("flow", "check", good, "--json").json["flow"]["steps"][1]["needs"] == ["one"]

    bad = write(tmp_path, 'nam = "x"\nshell = "x"', 'name = "y"\nneeds = ["z"]\ncommand = "y"')
    ran = alone.call("flow", "check", bad)
    assert ran.code == 1
    assert [line.split(" ", 1)[0] for line in ran.out.splitlines()] == [
        *(f"{bad}:1:", f"{bad}:2:", f"{bad}:6:", f"{bad}:7:")
    ]
    faults = alone.call("flow", "check", bad, "--json").json["faults"]
    assert [(one["line"], one["key"]) for one in faults] == [
        *((1, "phases.1"), (2, "phases.1.nam"), (6, "phases.y.needs[0]"), (7, "phases.y.command"))
    ]


def test_a_file_with_mistakes_is_not_run_and_every_mistake_is_said(tmp_path: Path, shell: Shell) -> None:
    bad = write(tmp_path, 'nam = "x"\nshell = "touch ran"', 'name = "y"\ncommand = "y"')
    ran = shell.call("flow", "run", bad)
    assert ran.code == 65
    assert len(re.findall(rf"{re.escape(bad)}:\d+: `", ran.err)) == 3
    assert not (tmp_path / "ran").exists()


def test_a_run_is_followed_to_its_end_and_can_be_looked_at(tmp_path: Path, shell: Shell) -> None:
    flaky = 'name = "flaky"\nshell = "test -e seen || { touch seen; echo not yet >&2; exit 64; }"'
    file = write(
        tmp_path, 'name = "one"\nshell = "echo said"', flaky, 'name = "last"\ncommand = ["true"]', head=AT_ONCE
    )

    began = time.time()
    ran = shell.call("flow", "run", file, "--id", "looked-1")

    told = [re.sub(r"[\d.]+ (ms|s)\b", "T", line).split(maxsplit=1) for line in ran.out.splitlines()]
    assert ran.code == 0
    assert told[-1] == ["looked-1", "completed after T"]
    assert [how for name, how in told if name == "flaky"] == [
        "try 1 of 4",
        "try 1 of 4: code 64 (EX_USAGE) after T; tried again in T",
        *("try 2 of 4", "done after T"),
    ] or ["flaky", "done after T"] in told  # what happened at one time is told as one
    run = shell.call("flow", "show", "looked-1", "--json").json["run"]
    assert [(one["step_id"], one["status"], len(one["tries"])) for one in run["steps"]] == [
        *(("one", "done", 1), ("flaky", "done", 2), ("last", "done", 1))
    ]
    shown = shell.call("flow", "show", "looked-1").out
    assert re.search(r"^flaky +done +2 ", shown, re.MULTILINE)
    # One form of times everywhere: that of receipts.
    for text in (shown, shell.call("flow", "list").out):
        (moment,) = re.findall(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", text.split("looked-1")[-1])[:1]
        then_s = datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
        assert began - 1 <= then_s <= time.time()
    assert shell.call("flow", "logs", "looked-1", "one").out == "said\n"
    assert shell.call("flow", "logs", "looked-1", "flaky", "--try", "1", "--stderr").out == "not yet\n"
    assert shell.call("flow", "logs", "looked-1", "flaky", "--try", "9").code == 1
    listed = shell.call("flow", "list", "--json").json[0]
    assert (listed["run_id"], listed["status"], listed["steps_over"]) == ("looked-1", "completed", 3)
    assert shell.call("sessions", "flow/looked-1").code == 0


def test_the_same_id_with_the_same_flow_is_the_same_run(tmp_path: Path, shell: Shell) -> None:
    file = write(tmp_path, 'name = "one"\nshell = "echo x >> ran"')
    for _ in range(2):
        assert shell.call("flow", "run", file, "--id", "same-1").code == 0
    assert (tmp_path / "ran").read_text() == "x\n"
    other = write(tmp_path, 'name = "two"\nshell = "true"', name="g.toml")
    refused = shell.call("flow", "run", other, "--id", "same-1")
    assert (refused.code, "another run" in refused.err) == (1, True)


def test_a_failed_run_says_how_to_go_on_and_does_so(tmp_path: Path, shell: Shell) -> None:
    file = write(tmp_path, 'name = "one"\nshell = "test -e here"\nmax_retries = 0\non_failure = "abort"')
    ran = shell.call("flow", "run", file, "--id", "failed-1")
    assert ran.code == 1
    assert "`lifebus flow retry failed-1 one` tries it again" in ran.err
    (tmp_path / "here").touch()
    assert shell.call("flow", "retry", "failed-1", "one").code == 0
    assert shell.call("flow", "resume", "failed-1").code == 0
    assert shell.call("flow", "show", "failed-1", "--json").json["run"]["status"] == "completed"


def test_a_person_is_asked_and_the_answer_steers_the_run(tmp_path: Path, shell: Shell) -> None:
    modifiable = 'modifiable = [{ name = "LEVEL", choices = ["strict", "lax"] }]'
    audit = f'name = "audit"\nshell = "test $LEVEL = lax || exit 2"\nenv = {{ LEVEL = "strict" }}\n{modifiable}'
    file = write(tmp_path, audit, 'name = "ship"\nshell = "echo shipped > out"\napproval = "Ship it?"')

    ran = shell.call("flow", "run", file, "--id", "asked-1", "--until-asked")
    assert ran.code == 4
    (question,) = set(re.findall(r"q_asked-1_audit_\w+", ran.out))
    for shown in (ran.out, shell.call("flow", "show", "asked-1").out, shell.call("inbox", "show", question).out):
        assert f"  lifebus inbox answer {question} retry\n" in shown
        assert "LEVEL: text, one of" in shown
    standing = shell.call("flow", "show", "asked-1")
    assert [line for line in standing.out.splitlines() if "cannot go on" in line] == ["`audit` of f cannot go on"]
    assert "`lifebus flow logs asked-1 audit --stderr` shows what it wrote" in standing.err
    asked = shell.call("flow", "show", "asked-1", "--json").json["questions"]
    assert [one["question"]["question_id"] for one in asked] == [question]
    assert shell.call("inbox", "answer", question, "modify", "--set", "LEVEL=lax").code == 0

    ran = shell.call("flow", "resume", "asked-1", "--until-asked")
    assert ran.code == 4
    (question,) = set(re.findall(r"q_asked-1_ship_\w+", ran.out))
    assert not (tmp_path / "out").exists()
    assert shell.call("inbox", "answer", question, "proceed").code == 0
    assert shell.call("flow", "resume", "asked-1").code == 0
    assert shell.call("flow", "show", "asked-1", "--json").json["run"]["status"] == "completed"
    assert (tmp_path / "out").read_text() == "shipped\n"


def test_a_budget_that_is_nearly_used_up_is_asked_about_while_the_phase_runs(project: Path, shell: Shell) -> None:
    file = write(project, HELD, 'name = "next"\nshell = "echo next > out"', head='budget = { time = "100ms" }\n')
    with shell.started("flow", "run", file, "--id", "budget-1") as following:
        process_of(project)
        assert following.stdout is not None
        lines = iter(following.stdout.readline, b"")
        question = next(found[0] for line in lines if (found := re.findall(r"q_budget-1_\*_\d+", line.decode())))
        shown = shell.call("flow", "show", "budget-1").out
        assert question in shown
        # Rounded, what is used is less than the limit that it is near.
        ((used, limit, share),) = re.findall(r"([\d.]+) of ([\d.]+) s are over \((\d+) %\)", shown)
        assert float(used) / float(limit) == pytest.approx(int(share) / 100, abs=0.05)
        signals = shell.call("flow", "signals", "budget-1").json
        assert (signals["is_approaching_limit"], signals["near"]) == (True, ["budget.time"])
        tell(project)
        assert shell.call("inbox", "answer", question, "modify", "--set", "time_ms=600000").code == 0
        following.stdout.read()
        assert following.wait(PATIENCE_S) == 0
    assert (project / "out").read_text() == "next\n"


def test_an_aborted_run_ends_what_runs_and_says_so_to_who_follows(project: Path, shell: Shell) -> None:
    file = write(project, HELD)
    with shell.started("flow", "run", file, "--id", "aborted-1") as following:
        pid = process_of(project)
        assert shell.call("flow", "abort", "aborted", "--reason", "enough").code == 0
        out, _ = following.communicate(timeout=PATIENCE_S)
        assert following.wait(PATIENCE_S) == 3
    assert "aborted after" in out.decode()
    assert "enough" in out.decode()
    assert has_ended(pid)


def test_ctrl_c_leaves_the_run_with_the_broker(project: Path, shell: Shell) -> None:
    file = write(project, HELD)
    with shell.started("flow", "run", file, "--id", "left-1") as following:
        process_of(project)
        following.send_signal(signal.SIGINT)
        _, err = following.communicate(timeout=PATIENCE_S)
        assert following.wait(PATIENCE_S) == 130
    assert "left-1 goes on in the broker" in err.decode()
    with shell.started("flow", "resume", "left-1") as following:
        tell(project)
        assert following.wait(PATIENCE_S) == 0
    assert (project / "said").read_text() == "go\n"


def test_a_root_belongs_to_one_run_at_a_time(project: Path, shell: Shell) -> None:
    file = write(project, HELD)
    with shell.started("flow", "run", file, "--id", "first-1") as following:
        process_of(project)
        for here in ((), ("--here",)):
            refused = shell.call("flow", "run", file, "--id", "second-1", *here)
            assert (refused.code, "run `first-1`" in refused.err) == (1, True)
            for way in ("resume", "abort"):
                assert f"`lifebus flow {way} first-1`" in refused.err
        tell(project)
        assert following.wait(PATIENCE_S) == 0


def test_a_command_runs_the_phases_itself_and_an_answer_reaches_it(project: Path, shell: Shell) -> None:
    shell_line = 'shell = "test -n \\"$SEEN\\" || exit 2"'
    asking = f'name = "asking"\n{shell_line}\nenv = {{ SEEN = "" }}\nmodifiable = [{{ name = "SEEN" }}]'
    own = 'name = "own"\nshell = "echo $OWN > own"\npass_env = ["OWN"]'
    file = write(project, own, asking, HELD)
    environment = {**shell.environment, "OWN": "mine"}
    with shell.started("flow", "run", file, "--here", "--id", "here-1", environment=environment) as running:
        question = ""
        for line in running.stdout or ():
            if found := re.search(rb"q_here-1_asking_\w+", line):
                question = found[0].decode()
                break
        assert shell.call("inbox", "answer", question, "modify", "--set", "SEEN=yes").code == 0
        process_of(project)
        assert shell.call("flow", "show", "here-1", "--json").json["run"]["owner"].startswith("here-")
        tell(project)
        assert running.wait(PATIENCE_S) == 0
    assert (project / "own").read_text() == "mine\n"
    assert shell.call("flow", "logs", "here-1", "own").code == 0
    assert shell.call("flow", "show", "here-1", "--json").json["run"]["status"] == "completed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_outlives_the_command_that_ran_it(project: Path, shell: Shell, number: int) -> None:
    file = write(project, 'name = "before"\nshell = "echo x >> before"', HELD)
    run_id = f"outlived-{number}"
    with shell.started("flow", "run", file, "--here", "--id", run_id) as running:
        pid = process_of(project)
        running.send_signal(number)
        code = running.wait(PATIENCE_S)
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 5}.get(signal.Signals(number), -signal.SIGKILL)
    with shell.started("flow", "resume", run_id) as following:
        assert process_of(project) != pid
        assert has_ended(pid)
        tell(project, "again")
        assert following.wait(PATIENCE_S) == 0
    tries = shell.call("flow", "show", run_id, "--json").json["run"]["steps"][1]["tries"]
    assert [one["outcome"]["kind"] for one in tries] == ["interrupted", "exited"]
    assert [one["retry"] for one in tries] == [0, 0]
    assert ((project / "before").read_text(), (project / "said").read_text()) == ("x\n", "again\n")


def test_of_a_run_that_is_over_a_command_that_would_run_it_tells_how_it_ended(tmp_path: Path, shell: Shell) -> None:
    file = write(tmp_path, 'name = "one"\nshell = "echo x >> ran"')
    asked = (("run", file, "--id", "over-1"), ("run", file, "--id", "over-1"), ("resume", "over-1"))
    for words in asked:
        ran = shell.call("flow", *words, "--here")
        assert ran.code == 0
        assert ran.out.splitlines()[-1].split()[:2] == ["over-1", "completed"]
    assert (tmp_path / "ran").read_text() == "x\n"
    failing = write(tmp_path, 'name = "one"\nshell = "exit 3"\non_failure = "abort"', name="g.toml")
    for words in (("run", failing, "--id", "over-2"), ("resume", "over-2")):
        assert shell.call("flow", *words, "--here").code == 1


def test_a_second_ctrl_c_does_not_wait_for_a_program_that_will_not_end(project: Path, shell: Shell) -> None:
    deaf = "trap '' TERM INT; echo $$ > up; read -r word < down"
    file = write(project, f'name = "deaf"\nshell = "{deaf}"\ngrace = "10m"')
    with shell.started("flow", "run", file, "--here", "--id", "deaf-1") as running:
        pid = process_of(project)
        running.send_signal(signal.SIGINT)
        for line in running.stderr or ():
            if b"once more kills it" in line:
                break
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 130
    assert has_ended(pid)
    with shell.started("flow", "resume", "deaf-1") as following:
        process_of(project)
        tell(project)
        assert following.wait(PATIENCE_S) == 0


def test_another_command_goes_on_where_one_was_interrupted(project: Path, shell: Shell) -> None:
    file = write(project, HELD)
    with shell.started("flow", "run", file, "--here", "--id", "handed-1") as running:
        process_of(project)
        assert shell.call("flow", "resume", "handed-1", "--here").code == 1
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 130
    assert shell.call("flow", "list", "--status", "interrupted", "--json").json[0]["run_id"] == "handed-1"
    with shell.started("flow", "resume", "handed-1", "--here") as running:
        process_of(project)
        tell(project)
        assert running.wait(PATIENCE_S) == 0


def test_a_run_that_a_command_runs_goes_on_over_a_restart_of_its_broker(project: Path) -> None:
    file = write(project, HELD, 'name = "after"\nshell = "echo x >> after"')
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell) as up, shell.started("flow", "run", file, "--here", "--id", "over-1") as running:
            process_of(project)
            up.process.kill()
            up.wait()
            tell(project)
            with broker_up(shell):
                assert running.wait(PATIENCE_S) == 0
                run = shell.call("flow", "show", "over-1", "--json").json["run"]
    assert (run["status"], run["interruptions"]) == ("completed", 0)
    assert [len(one["tries"]) for one in run["steps"]] == [1, 1]
    assert (project / "after").read_text() == "x\n"


def test_who_follows_a_run_follows_it_over_a_restart_of_its_broker(project: Path) -> None:
    file = write(project, 'name = "before"\nshell = "echo x >> before"', HELD)
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell) as up, shell.started("flow", "run", file, "--id", "over-2") as following:
            pid = process_of(project)
            up.process.kill()
            up.wait()
            assert any(b"is gone; waiting for another one" in line for line in following.stderr or ())
            with broker_up(shell):
                assert process_of(project) != pid
                tell(project)
                out, _ = following.communicate(timeout=PATIENCE_S)
                assert following.wait(PATIENCE_S) == 0
                run = shell.call("flow", "show", "over-2", "--json").json["run"]
    assert b"interrupted" in out
    assert [one["outcome"]["kind"] for one in run["steps"][1]["tries"]] == ["interrupted", "exited"]
    assert (project / "before").read_text() == "x\n"
