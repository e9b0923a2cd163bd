"""What an inspection of installed hooks depends on: files, directories, variables of the environment.

Who keeps its result has to look whether any of them has changed (`lifebus status`).
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

import lifebus_adapters
from lifebus_adapters import ADAPTERS
from lifebus_admin.harnesses.target import (
    SYSTEM_PYTHON,
    HostEnvironment,
    Target,
    install_request,
    own_assets,
    recorded_targets,
)
from lifebus_supervisor.supervision.installed_hooks import RECORDS


class NotedEnvironment(Mapping[str, str]):
    """An environment that notes which variables were asked for, and what they were; None for one that is not set."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.asked: dict[str, str | None] = {}

    def __getitem__(self, name: str) -> str:
        """Return a variable.

        Raises:
            KeyError: it is not set.
        """
        self.asked[name] = self._environ.get(name)
        return self._environ[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all, each of which counts as asked for."""
        self.asked.update(self._environ)
        return iter(self._environ)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._environ)


def inspected_files(place: HostEnvironment) -> list[str]:
    """Return the files and directories that the inspection here reads, or looks for, outside of our own program."""
    records = place.state_dir / RECORDS
    unfinished = records.with_name("unfinished")
    found = [SYSTEM_PYTHON, sys.executable, str(records), str(unfinished)]
    # A name that comes or goes changes the directory; a file that is written in place does not.
    for directory in (records, unfinished):
        with suppress(OSError):  # it is not there, or no directory, which is seen too
            found += sorted(map(str, directory.iterdir()))
    for target in _looked_for(place):
        wide = msgspec.structs.replace(target, status_line=True)
        found += [asset.path for asset in own_assets(place, wide)]
        rules = ADAPTERS[target.adapter_id].trust
        found += [] if rules is None else [rules.config_path(install_request(place, target))]
    return list(dict.fromkeys(found))


def _looked_for(place: HostEnvironment) -> Iterator[Target]:
    """Yield what the inspection looks for: all that can be installed for the user, and what is on record elsewhere."""
    for adapter_id, harness in ADAPTERS.items():
        yield from (Target(adapter_id=adapter_id, mode=mode) for mode in harness.assets.modes)
    yield from recorded_targets(place)


def program_files() -> list[str]:
    """Return the files of our own program that have been read, and the folder where the libraries are installed."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("lifebus")]
    sources = [path for module in modules if (path := getattr(module, "__file__", None)) is not None]
    texts = [path for path in Path(lifebus_adapters.__file__).parent.glob("*/*.*") if not path.match("*.py*")]
    libraries = Path(msgspec.__file__).parent.parent
    return [*sources, *map(str, texts), str(libraries)]
