"""Restores and imports that die: at each thing that they do to the file system, one after the other.

A process of its own, because it forks.  Arguments: a directory with a template of a state directory, a backup and an
export.  Prints a line of JSON for each death: what was found afterwards.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from lifebus_admin.ledger_files.backup import restore
from lifebus_admin.ledger_files.checks import check_file
from lifebus_admin.ledger_files.files import held_ledger
from lifebus_admin.ledger_files.info import read_info
from lifebus_admin.ledger_files.transfer import bring_in
from lifebus_broker.ledger.sqlite.transfer.swap import next_path
from lifebus_contract import LifebusError
from lifebus_supervisor.configuration.settings import Settings

DEEDS = {"os.rename", "os.link", "os.remove", "os.mkdir", "open"}
DIED = 9


def die_at(number: int) -> None:
    """End this process, without a last word, before its n-th deed."""
    left = [number]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in DEEDS and str(arguments[0]).startswith(str(HERE)):
            left[0] -= 1
            if left[0] == 0:
                os._exit(DIED)

    sys.addaudithook(hook)


def state(settings: Settings, path: Path) -> dict[str, object]:
    """What is in a place: whose ledger, how far, and what is wrong with it."""
    found = read_info(path)
    return {"epoch": found.epoch, "head": found.head, "faults": check_file(path)}


def die(settings: Settings, work: Callable[[], object], number: int) -> bool:
    """Let the work die before its n-th deed; False when it has fewer."""
    child = os.fork()
    if not child:
        die_at(number)
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == DIED


def one(kind: str, number: int) -> bool:
    """Let one die, look at what is left, and go on."""
    target = HERE / "now"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(HERE / "template", target)
    settings = Settings(runtime_dir=target / "run", state_dir=target)
    work: Callable[[], object] = lambda: restore(settings, HERE / "backup", "f" * 32)  # noqa: E731
    if kind == "import":
        work = lambda: bring_in(settings, HERE / "export", "f" * 32, replace=True)  # noqa: E731
    died = die(settings, work, number)
    path = settings.ledger_path
    before = None if next_path(path).exists() else state(settings, path)
    refused = None
    if before is None:
        try:
            read_info(path)
        except LifebusError as fault:
            refused = fault.code
    with held_ledger(settings):
        after = state(settings, path)
    aside = [state(settings, one / "ledger.db") for one in target.glob("ledger.db.before-*")]
    left = [one.name for one in target.iterdir() if one.name.endswith(".tmp") or ".next" in one.name]
    sys.stdout.write(
        json.dumps({"before": before, "refused": refused, "after": after, "aside": aside, "left": left}) + "\n"
    )
    return died


if __name__ == "__main__":
    HERE = Path(sys.argv[1])
    for kind in ("restore", "import"):
        number = 1
        while one(kind, number):
            number += 1
