"""What came of the matrix of real harnesses: kept beside the tests, shown in the README.

python -m support.e2e.results     # from tests/: write the README's table again
"""

import fcntl
import json
import os
from pathlib import Path
from typing import Any, Final

from lifebus.live.expected import expectation
from lifebus.live.programs import PROGRAMS
from lifebus.live.runner import Cell
from lifebus.live.scenarios import SCENARIOS
from lifebus_adapters import ADAPTERS
from support.harness_matrix import README, split
from support.paths import REPOSITORY

RESULTS: Final = REPOSITORY / "tests/e2e/results.json"
RECORD: Final = "LIFEBUS_E2E_RECORD"
"""With this variable the tests of the matrix write down what came of them."""

_SIGNS: Final = {True: "yes", False: "**no**", None: "not run"}


def record(cell: Cell, version: str) -> None:
    """Keep what came of one cell, where that is asked for."""
    if not os.environ.get(RECORD):
        return
    with RESULTS.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        results = json.load(file)
        cells = results.setdefault(cell.harness, {}).setdefault("scenarios", {})
        results[cell.harness]["version"] = version
        cells[cell.scenario] = cell.holds
        file.seek(0)
        file.truncate()
        file.write(json.dumps(results, indent=2, sort_keys=True) + "\n")


def live_matrix() -> str:
    """Return the table: what came of each scenario with each harness, in which version."""
    results = json.loads(RESULTS.read_text())
    names = [f"{ADAPTERS[name].registered.manifest.display_name} {results[name]['version']}" for name in PROGRAMS]
    lines = [_line("scenario", *names), _line("---", *["---"] * len(names))]
    lines += [_line(one.title, *(_sign(results, one.name, name) for name in PROGRAMS)) for one in SCENARIOS.values()]
    return "\n".join(lines) + "\n"


def _sign(results: dict[str, Any], scenario: str, harness: str) -> str:
    if expectation(scenario, harness).cannot:
        return "–"
    return _SIGNS[results[harness]["scenarios"].get(scenario)]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main(readme: Path = README) -> None:
    """Write the table into the README."""
    before, _, behind = split(readme.read_text(), "live")
    readme.write_text(before + live_matrix() + behind)


if __name__ == "__main__":
    main()
