"""The targets of a file, and the flow that a goal among them is.  Pure.

The file is the plain part of a makefile: targets, what they need, and lines for the shell.  What belongs to make alone
(variables, patterns, functions, includes) is refused by its line.
"""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final

from msgspec import Struct

from lifebus.make.codes import CODES
from lifebus_contract import InvalidRequest
from lifebus_contract.flows import FlowDefinition, OnFailure, StepDefinition

CLIENT_ID: Final = "make"
"""Whose rules these flows have."""

_TARGET: Final = re.compile(r"^(?P<name>[A-Za-z0-9_./-]+)\s*:(?!=)(?P<needs>[A-Za-z0-9_./\s-]*)(?:#.*)?$")
_PHONY: Final = ".PHONY"
_SHELL: Final = ("/bin/sh", "-ec")
_PASSED: Final = ("*",)


class MakeTarget(Struct, frozen=True, kw_only=True):
    """One target: what it needs, and the lines that a shell runs."""

    name: str
    needs: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def read_targets(text: str) -> dict[str, MakeTarget]:
    """Return the targets of a file, in their order.

    Raises:
        InvalidRequest: a line that is none of this, or a target that stands there twice; `field` has the line.
    """
    found: dict[str, MakeTarget] = {}
    name = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("\t") and name is not None:
            found[name] = _with_line(found[name], line[1:], number)
        elif line.strip() and not line.lstrip().startswith("#"):
            target = _target(line, number)
            name = target.name
            if name == _PHONY:
                name = None
            elif name in found:
                raise _refuse(number, f"the target `{name}` stands there twice")
            else:
                found[name] = target
    return found


def make_flow(
    targets: Mapping[str, MakeTarget],
    goal: str | None,
    root: str,
    *,
    jobs: int = 1,
    is_file: Callable[[str], bool] = lambda _: False,
) -> FlowDefinition:
    """Return the flow that makes a goal, which is the first target where none is named.

    `is_file` says what is there without being made.

    Raises:
        InvalidRequest: there is no such target, or something needed is neither a target nor a file.
    """
    if not targets:
        raise InvalidRequest("there are no targets", code="against_contract")
    wanted = goal or next(iter(targets))
    needed = _needed(targets, wanted, is_file)
    steps = tuple(_step(target, needed) for name, target in targets.items() if name in needed)
    try:
        return FlowDefinition(
            name=f"make {wanted}", client_id=CLIENT_ID, root=root, steps=steps, codes=CODES, max_parallel=jobs
        )
    except ValueError as fault:  # targets that need one another
        raise InvalidRequest(str(fault), code="against_contract") from None


def _target(line: str, number: int) -> MakeTarget:
    match = _TARGET.match(line)
    if match is None:
        raise _refuse(
            number, f"`{line.strip()[:64]}` is no target: NAME: NEEDS, with the lines of its shell behind tabs"
        )
    return MakeTarget(name=match["name"], needs=tuple(dict.fromkeys(match["needs"].split())))


def _with_line(target: MakeTarget, line: str, number: int) -> MakeTarget:
    if re.search(r"\$[({@<^*?%+]", line):
        raise _refuse(number, f"`{line.strip()[:64]}`: make's variables are not known here")
    # The marks of make: nothing is echoed here anyway, and a line that may fail says so to the shell.
    return MakeTarget(name=target.name, needs=target.needs, lines=(*target.lines, _for_shell(line.strip())))


def _for_shell(line: str) -> str:
    bare = line.lstrip("@-+ ")
    marks = line[: len(line) - len(bare)]
    return f"{{ {bare}; }} || :" if "-" in marks else bare.replace("$$", "$")


def _needed(targets: Mapping[str, MakeTarget], goal: str, is_file: Callable[[str], bool]) -> set[str]:
    """Return the targets that a goal needs, itself included."""
    found: set[str] = set()
    left = [(goal, "")]
    while left:
        name, by = left.pop()
        if name not in targets:
            if by and is_file(name):
                continue
            detail = (
                f"`{by[:64]}` needs `{name[:64]}`, which is no target" if by else f"there is no target `{name[:64]}`"
            )
            raise InvalidRequest(detail, code="against_contract")
        if name not in found:
            found.add(name)
            left += [(need, name) for need in targets[name].needs]
    return found


def _step(target: MakeTarget, needed: Container[str]) -> StepDefinition:
    return StepDefinition(
        step_id=target.name,
        needs=tuple(need for need in target.needs if need in needed),
        command=_command(target.lines),
        passing=_PASSED,
        max_retries=0,
        on_failure=OnFailure.ABORT,
    )


def _command(lines: Sequence[str]) -> tuple[str, ...]:
    return (*_SHELL, "\n".join(lines)) if lines else ("true",)


def _refuse(number: int, detail: str) -> InvalidRequest:
    return InvalidRequest(f"line {number}: {detail}", code="against_contract", field=f"line {number}")
