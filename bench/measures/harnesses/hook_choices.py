"""What a user feels of a hook, beside what he would use instead: the whole process, until its event is safe and seen.

Each choice gets the same payload on stdin.  Its event is durable once another SQLite connection sees the commit, which
both databases sync first; it is with a subscriber once a process of its own has it.  Then the server is killed, and it
is counted what of the calls meanwhile is there once it is back.  The choices take turns.
"""

import os
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.hook_calls import payload
from bench.hook_choices import Choice, Commits, choices, seen
from bench.measures.harnesses.hook import BARE, BARE_CASE
from bench.peers.process import workspace
from bench.report import Run, print_table
from bench.workload import percentile

AWAY_CALLS: Final = 20
_WARM_UP: Final = 5
_LOOK_S: Final = 0.00005
_PATIENCE_S: Final = 5.0


@dataclass(slots=True)
class Felt:
    """Seconds of each call, none where nobody can tell; `kept` is how many of the calls without a server are there."""

    process: list[float] = field(default_factory=list)
    durable: list[float] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)
    away: list[float] = field(default_factory=list)
    kept: int | None = None


def collect(rounds: int) -> dict[str, Felt]:
    """Measure each choice that is installed, and the barest Python process."""
    found: dict[str, Felt] = {BARE_CASE: Felt()}
    with workspace() as folder, choices(folder) as offered:
        found |= {name: Felt() for name in offered}
        for number in range(rounds + _WARM_UP):
            warm = number >= _WARM_UP
            _call_bare(found[BARE_CASE] if warm else Felt())
            for name, choice in offered.items():
                _call(choice, folder, f"s{number}-{len(name)}", found[name] if warm else Felt())
        for name, choice in offered.items():
            _call_away(choice, folder, found[name])
    return found


def _call_bare(felt: Felt) -> None:
    began = time.perf_counter()
    os.waitpid(os.posix_spawn(BARE[0], BARE, {}), 0)
    felt.process.append(time.perf_counter() - began)


def _call(choice: Choice, folder: Path, session: str, felt: Felt) -> None:
    """Call once, with somebody who looks for the commit all the while."""
    if choice.place.database is None:
        began, ended, durable = _watch(choice, folder, session, None)
    else:
        with closing(Commits(choice.place.database)) as commits:
            began, ended, durable = _watch(choice, folder, session, commits)
    felt.process.append((ended - began) / 1e9)
    if durable:
        felt.durable.append((durable - began) / 1e9)
    felt.seen.append((seen(choice.place, session) - began) / 1e9)


def _watch(choice: Choice, folder: Path, session: str, commits: Commits | None) -> tuple[int, int, int]:
    """Return the nanoseconds of the start, of the process's end, and of the commit, 0 where nobody knows."""
    began = time.monotonic_ns()
    child = _spawn(choice, folder, session)
    ended = durable = 0
    while not ended or (commits and not durable):
        if not ended and os.waitpid(child, os.WNOHANG)[0]:
            ended = time.monotonic_ns()
        if commits and not durable and commits.changed():
            durable = time.monotonic_ns()
        if time.monotonic_ns() - began > 1e9 * _PATIENCE_S:
            raise RuntimeError(f"{choice.command[0]}: no end or no commit within {_PATIENCE_S:.0f} s")
        time.sleep(_LOOK_S)
    return began, ended, ended if choice.synced else durable


def _spawn(choice: Choice, folder: Path, session: str) -> int:
    file = folder / "payload"
    file.write_bytes(payload(session) + b"\n")
    with file.open("rb") as stdin, Path(os.devnull).open("wb") as nowhere:
        actions = [(os.POSIX_SPAWN_DUP2, stdin.fileno(), 0), (os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)]
        return os.posix_spawn(choice.command[0], list(choice.command), choice.environment, file_actions=actions)


def _call_away(choice: Choice, folder: Path, felt: Felt) -> None:
    """Call without a server, and count what is there once it is back."""
    choice.place.kill()
    sessions = [f"away{number}-{id(choice)}" for number in range(AWAY_CALLS)]
    for session in sessions:
        began = time.perf_counter()
        os.waitpid(_spawn(choice, folder, session), 0)
        felt.away.append(time.perf_counter() - began)
    felt.kept = len(choice.place.sessions().intersection(sessions))


def report(run: Run) -> None:
    """Measure and print."""
    rounds = 10 if run.quick else 100
    found = collect(rounds)
    rows = [
        (
            name,
            *(f"{_ms(felt.process, share)}" for share in (0.5, 0.99)),
            *(_ms(seconds, 0.5) for seconds in (felt.durable, felt.seen, felt.away)),
            "–" if felt.kept is None else f"{AWAY_CALLS - felt.kept} of {AWAY_CALLS}",
        )
        for name, felt in found.items()
    ]
    title = f"One hook of {len(payload('s0'))} bytes and what a user has instead: ms from its start, {rounds} rounds"
    head = ("", "process p50", "p99", "durable p50", "seen p50", "process, server away", "lost meanwhile")
    print_table(run.console, title, head, rows)


def _ms(seconds: list[float], share: float) -> str:
    return f"{1e3 * percentile(seconds, share):.1f}" if seconds else "–"
