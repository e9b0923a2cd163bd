"""`make mutants`: break a copy of the sources on purpose, one way after the other, and see the suite notice.

    python tests/mutants/run.py [--jobs N] [WORD …]

With words only the mutants whose names hold one of them are run, or that stand in a file of that name, such as `trust`.
Each verdict is printed as it comes.  For each mutant the tree is copied, the edit applied,
and the named tests run there; every one of them has to fail by an assertion of its own.  The same tests are run over an
unbroken copy as well and have to pass.  Exit code 1 when a mutant survives or an edit fits no more.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))

from msgspec import Struct  # noqa: E402  the path is set up above
from rich.console import Console  # noqa: E402

from mutants.catalogue import REPOSITORY, Mutant, StaleMutant, apply, load  # noqa: E402
from mutants.witness import OUTCOMES  # noqa: E402

SOURCES = ("broker", "transports", "supervisor", "clients")
COPIED = (*SOURCES, "tests", "docs", "bench", "pyproject.toml", "README.md", "Makefile")
LIMIT_S = 600.0
PATIENCE = "LIFEBUS_TEST_PATIENCE"
"""A broken copy keeps many a test waiting to its bound: it is shorter here."""


class Verdict(Struct, frozen=True):
    """How the tests ended over one copy; `fault` is why that proves nothing, or nothing was caught."""

    ends: dict[str, str]
    seconds: float
    fault: str = ""


def main(arguments: Sequence[str]) -> int:
    """Run the control and the chosen mutants; return the exit code."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only the mutants whose names hold a word")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many run at once")
    asked = parser.parse_args(arguments)
    console = Console(width=150)
    chosen = load(*asked.words)
    if not chosen:
        console.print("no mutant has such a name")
        return 1
    caught = 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        # The control runs every test that any of them names: it takes longest, and its verdict comes when it is there.
        control = pool.submit(_control, chosen)
        under_way = {pool.submit(_try, mutant): mutant for mutant in chosen}
        for done in as_completed(under_way):
            caught += not done.result().fault
            _print(console, under_way[done], done.result())
    fault = control.result().fault
    console.print(f"control, nothing changed: {fault or f'{len(control.result().ends)} tests pass'}")
    console.print(f"{caught} of {len(chosen)} mutants are caught")
    return 1 if fault or caught < len(chosen) else 0


def _print(console: Console, mutant: Mutant, verdict: Verdict) -> None:
    """Say what became of one; at once, for the whole takes the better part of an hour."""
    said = f"SURVIVES  {mutant.name}: {verdict.fault}" if verdict.fault else f"caught    {mutant.name}"
    console.print(f"{said} ({verdict.seconds:.0f} s)", markup=False, highlight=False)
    console.file.flush()


def _control(mutants: Sequence[Mutant]) -> Verdict:
    """Run every named test over a copy in which nothing was changed."""
    tests = tuple(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
    with tempfile.TemporaryDirectory(prefix="lb-control-") as folder:
        verdict = _run(tests, _copied(Path(folder)))
    wrong = [f"{test}: {end}" for test, end in verdict.ends.items() if end != "passed"]
    absent = [test for test in tests if not _ends_of(test, verdict)]
    fault = verdict.fault or "; ".join([*wrong, *(f"{test}: did not run" for test in absent)])
    return Verdict(verdict.ends, verdict.seconds, fault)


def _try(mutant: Mutant) -> Verdict:
    """Run a mutant's tests over its copy; the fault says why it counts as alive."""
    with tempfile.TemporaryDirectory(prefix="lb-mutant-") as folder:
        copy = _copied(Path(folder))
        try:
            changed = apply(mutant, copy)
        except StaleMutant as stale:
            return Verdict({}, 0.0, str(stale))
        stamps = [_stamp(path, copy) for path in changed]
        verdict = _run(mutant.tests, copy)
        unused = [path.name for path, stamp in zip(changed, stamps, strict=True) if not stamp.exists()]
    alive = [test for test in mutant.tests if "assertion" not in _ends_of(test, verdict)]
    ends = "; ".join(f"{test.rpartition('::')[2]}: {_said(_ends_of(test, verdict))}" for test in alive)
    return Verdict(verdict.ends, verdict.seconds, verdict.fault or ", ".join(unused and ["never ran", *unused]) or ends)


def _said(ends: Iterable[str]) -> str:
    return ", ".join(sorted(set(ends))) or "did not run"


def _ends_of(test: str, verdict: Verdict) -> list[str]:
    """Return how the cases of a test ended."""
    return [end for name, end in verdict.ends.items() if name == test or name.startswith(f"{test}[")]


def _copied(folder: Path) -> Path:
    """Copy what the tests need; nothing that was compiled comes along."""
    for name in COPIED:
        source, target = REPOSITORY / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            shutil.copy2(source, target)
    return folder


def _stamp(path: Path, copy: Path) -> Path:
    """Have a changed module leave a file behind when it is run, in whatever process; return that file."""
    stamp = copy / f".ran-{path.stem}"
    with path.open("a") as file:
        file.write(f"\n__import__('pathlib').Path({str(stamp)!r}).touch()\n")
    return stamp


def _run(tests: Sequence[str], copy: Path) -> Verdict:
    """Run tests over a copy, and make sure that it is the copy that ran."""
    outcomes = copy / "outcomes.json"
    places = [str(copy / name) for name in (*SOURCES, "tests")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*places, str(copy)]), OUTCOMES: str(outcomes)}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", PATIENCE: "20"}
    options = ("-q", "-p", "mutants.witness", "-p", "no:cacheprovider", f"--basetemp={copy / 'tmp'}")
    command = [sys.executable, "-m", "pytest", *options, *tests]
    began = time.monotonic()
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return Verdict({}, LIMIT_S, "time ran out")
    seconds = time.monotonic() - began
    if not outcomes.exists():
        return Verdict({}, seconds, done.stdout.decode(errors="replace")[-400:])
    found = json.loads(outcomes.read_text())
    strays = [name for name in found["files"] if not name.startswith(f"{copy}{os.sep}")]
    return Verdict(found["ends"], seconds, f"not the copy was run but {strays[0]}" if strays else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
