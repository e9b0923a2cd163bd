"""A flow of five phases for tests that kill whatever takes part, and the file in which the phases say what they did.

That file is the oracle: each line is appended and synced by the phase itself.  ``start PHASE TRY PID`` is its first
act, ``end PHASE TRY CODE`` its last one before it exits with that code.
"""

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

NEEDS: Final[Mapping[str, tuple[str, ...]]] = {"a": (), "b": ("a",), "c": ("b",), "d": ("b",), "e": ("c", "d")}
APPROVED: Final = "d"
BLOCKED: Final = "c"
FLAKY: Final = "b"

PROGRAM: Final = """
import os, signal, sys

name, number = sys.argv[1], os.environ["LIFEBUS_FLOW_TRY"]
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

def say(what, last):
    world = os.open("world", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(world, f"{what} {name} {number} {last}\\n".encode())
    os.fsync(world)
    os.close(world)
    try:
        os.rename(f"hold.{what}.{name}", f"held.{os.getpid()}")
    except FileNotFoundError:
        return
    signal.sigwait({signal.SIGUSR1})

say("start", os.getpid())
code = 0
if name == "b":
    try:
        os.mkdir("b.seen")
        code = 1
    except FileExistsError:
        pass
if name == "c" and not os.path.exists("c.answered"):
    code = 2
if name == "e":
    with open("e.txt", "w") as made:
        made.write("made")
say("end", code)
sys.exit(code)
"""
"""A phase.  A file ``hold.start.PHASE`` or ``hold.end.PHASE`` has it wait behind that line until SIGUSR1."""


def flow_text(program: Path, first_pause: str = "50ms") -> str:
    """Return the flow as a file: `b` fails once, `c` is blocked, `d` asks before it begins, `e` leaves an artifact."""
    more = {APPROVED: 'approval = "Shall it?"\n', "e": 'artifacts = ["e.txt"]\n'}
    words = [sys.executable, "-I", "-S", str(program)]
    phases = "".join(
        f'[[phases]]\nname = "{name}"\nneeds = {list(needs)}\ncommand = {[*words, name]}\n{more.get(name, "")}'
        for name, needs in NEEDS.items()
    )
    pause = f'pause = {{ first = "{first_pause}", longest = "{first_pause}" }}'
    return f'name = "five"\nmax_parallel = 2\n[defaults]\n{pause}\nmax_retries = 5\n{phases}'


@dataclass(frozen=True)
class Said:
    """A line of the oracle; `value` is the process id of a start, the exit code of an end."""

    what: str
    name: str
    number: int
    value: int


def read_world(project: Path) -> list[Said]:
    """Return what the phases have said so far."""
    path = project / "world"
    text = path.read_text() if path.exists() else ""
    found = [line.split() for line in text.splitlines()]
    return [Said(what, name, int(number), int(value)) for what, name, number, value in found]


def check_order(world: list[Said]) -> None:
    """Hold the oracle to the needs: none begins before what it needs has ended well, and none begins again after."""
    last: dict[str, Said] = {}
    for line in world:
        if line.what == "start":
            for name in NEEDS[line.name]:
                need = last.get(name)
                assert need is not None, f"{line}: `{name}` never ran"
                assert (need.what, need.value) == ("end", 0), f"{line}: `{name}` had not ended well"
            assert not any(line.name in NEEDS[other] for other in last), f"{line}: what needs it had begun"
        last[line.name] = line
    starts = [(line.name, line.number) for line in world if line.what == "start"]
    assert len(starts) == len(set(starts)), f"one try ran twice: {starts}"


def check_tries(world: list[Said], steps: list[dict[str, Any]], *, is_over: bool) -> None:
    """Hold what a run says of its tries to what the phases say."""
    ends = {(line.name, line.number): line.value for line in world if line.what == "end"}
    starts = {(line.name, line.number) for line in world if line.what == "start"}
    tries = {(step["step_id"], one["number"]): one for step in steps for one in step.get("tries", ())}
    for place, one in tries.items():
        outcome = one.get("outcome")
        if outcome is not None and outcome["kind"] == "exited":
            assert ends.get(place) == outcome["code"], f"{place} is said to have ended with {outcome}: {world}"
    assert starts <= set(tries), "a phase ran without a record"
    for step in steps:
        if step["status"] == "done":
            newest = (step["step_id"], step["tries"][-1]["number"])
            assert ends.get(newest) == 0, f"{newest} is said to be done: {world}"
    if is_over:
        for place in starts - set(ends):
            kind = tries[place]["outcome"]["kind"]
            assert kind in {"interrupted", "signalled"}, f"{place} never ended, and is said to be {kind}"
            assert any(name == place[0] and number > place[1] for name, number in starts), f"{place} did not run again"


def let_go(project: Path) -> None:
    """Have the phase that is held go on, where it was not killed."""
    for path in project.glob("held.*"):
        try:
            os.kill(int(path.name.removeprefix("held.")), signal.SIGUSR1)
        except ProcessLookupError:
            continue
