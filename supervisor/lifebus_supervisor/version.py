"""The versions of the package and of what it needs."""

import re
from typing import Final

VERSION: Final = "0.1.0"
"""The version of lifebus, as pyproject.toml has it: to ask for what is installed takes 40 ms."""

_DISTRIBUTION: Final = "lifebus"
_NAME: Final = re.compile(r"[\w.-]+")


def dependency_versions() -> dict[str, str]:
    """Return the installed version of each library that the distribution asks for; nothing in a bare tree."""
    from importlib.metadata import PackageNotFoundError, requires, version  # noqa: PLC0415  as above

    def installed(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "not installed"

    try:
        wanted = requires(_DISTRIBUTION) or []
    except PackageNotFoundError:
        return {}
    return {found.group(): installed(found.group()) for one in wanted if (found := _NAME.match(one))}
