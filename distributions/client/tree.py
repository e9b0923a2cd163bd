"""Which files of the tree `lifebus-client` has: whole packages, without the folders that only the broker needs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = (
    "broker/lifebus_contract",
    "transports/lifebus_adapters",
    "transports/lifebus_transports",
    "clients/lifebus",
)
WITHOUT = (
    "transports/lifebus_adapters/conformance",
    "transports/lifebus_transports/hooks",
    "transports/lifebus_transports/http",
    "transports/lifebus_transports/processes",
    "transports/lifebus_transports/shims",
    "transports/lifebus_transports/zmq/receipts.py",
    "transports/lifebus_transports/zmq/requests.py",
    "clients/lifebus/_extension_host",
    "clients/lifebus/cli",
    "clients/lifebus/demo",
    "clients/lifebus/live",
    "clients/lifebus/loa",
    "clients/lifebus/make",
    "clients/lifebus/observer",
    "clients/lifebus/proxy",
    "clients/lifebus/recordings",
    "clients/lifebus/stdio",
    "clients/lifebus/top",
)
"""What is left out: it runs in the broker, or belongs to commands."""

OTHERS = ("pyproject.toml",)
"""What an sdist needs of the tree beside them: the version."""


class TreeHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the files into what is built: in a wheel as packages, in an sdist below `tree`, as the tree has them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  hatchling's interface
        """Name the files."""
        here = Path(self.root)
        tree = here / "tree" if (here / "tree").is_dir() else here.parent.parent
        if self.target_name == "sdist":
            found = {path: f"tree/{path}" for path in (*files_of(tree), *OTHERS)}
        else:
            found = {path: path.partition("/")[2] for path in files_of(tree)}
            build_data["force_include"][str(here / "cli.py")] = "lifebus/cli/__init__.py"
        build_data["force_include"] |= {str(tree / path): target for path, target in found.items()}


def files_of(tree: Path) -> Iterator[str]:
    """Yield the paths of what is shipped, within the tree."""
    for package in PACKAGES:
        for path in sorted((tree / package).rglob("*")):
            name = path.relative_to(tree).as_posix()
            left_out = any(f"{name}/".startswith(f"{folder}/") for folder in WITHOUT)
            if path.is_file() and path.suffix != ".pyc" and not left_out:
                yield name
