"""Targets read from a file, and the flow that a goal among them is."""

import pytest

from lifebus.make.codes import CODES
from lifebus.make.targets import make_flow, read_targets
from lifebus_contract import InvalidRequest
from lifebus_contract.flows import OnFailure, StepVerdict

FILE = """\
# What is built, and how.
.PHONY: all

all: program manual   # everything
program: object
\tcc -o program object
\t@strip program
object:
\techo "$$HOME" > object
manual:
\t-spell manual
\ttouch manual.html
unused:
\tfalse
"""


def test_a_goal_has_what_it_needs_and_nothing_else() -> None:
    flow = make_flow(read_targets(FILE), None, "/project", jobs=4)
    assert (flow.name, flow.client_id, flow.root, flow.max_parallel) == ("make all", "make", "/project", 4)
    assert {step.step_id: step.needs for step in flow.steps} == {
        "all": ("program", "manual"),
        "program": ("object",),
        "object": (),
        "manual": (),
    }


def test_a_file_that_is_there_needs_no_target() -> None:
    targets = read_targets("all: object\nobject: source.c\n\tcc source.c\n")
    flow = make_flow(targets, None, "/p", is_file=lambda name: name == "source.c")
    assert {step.step_id: step.needs for step in flow.steps} == {"all": ("object",), "object": ()}
    with pytest.raises(InvalidRequest, match="there is no target `source"):
        make_flow(targets, "source.c", "/p", is_file=lambda name: name == "source.c")


def test_lines_are_one_script_that_ends_where_one_fails() -> None:
    commands = {step.step_id: step.command for step in make_flow(read_targets(FILE), None, "/p").steps}
    assert commands["program"] == ("/bin/sh", "-ec", "cc -o program object\nstrip program")
    assert commands["object"] == ("/bin/sh", "-ec", 'echo "$HOME" > object')
    assert commands["manual"] == ("/bin/sh", "-ec", "{ spell manual; } || :\ntouch manual.html")
    assert commands["all"] == ("true",)


def test_nothing_is_tried_again_and_nobody_is_asked() -> None:
    flow = make_flow(read_targets(FILE), "manual", "/p")
    assert {(step.max_retries, step.on_failure) for step in flow.steps} == {(0, OnFailure.ABORT)}
    named = {code: rule.verdict for rule in CODES.rules for code in range(rule.first, rule.last + 1)}
    assert named == {0: StepVerdict.PROCEED, **dict.fromkeys(range(1, 256), StepVerdict.ESCALATE)}
    assert StepVerdict.RETRY not in (CODES.signalled, CODES.timed_out, CODES.cannot_start, CODES.unverified)


@pytest.mark.parametrize(
    ("text", "goal", "said"),
    [
        ("a:\n\ttrue\na:\n", None, "line 3: the target `a` stands there twice"),
        ("CC = gcc\n", None, "line 1: `CC = gcc` is no target"),
        ("CC := gcc\n", None, "line 1"),
        ("%.o: %.c\n", None, "line 1"),
        ("a:\n\tcc $(FLAGS)\n", None, "line 2: `cc $(FLAGS)`: make's variables"),
        ("a: b\n", None, "`a` needs `b`, which is no target"),
        ("a: b\nb: a\n", None, "need one another"),
        ("a:\n", "b", "there is no target `b`"),
        ("# nothing\n", None, "there are no targets"),
        ("\ttrue\n", None, "line 1"),
    ],
)
def test_what_cannot_be_run_is_refused_by_its_line(text: str, goal: str | None, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        make_flow(read_targets(text), goal, "/p")
    assert said in str(refused.value)
