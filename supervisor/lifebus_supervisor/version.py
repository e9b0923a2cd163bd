"""The versions of the installed package and of what it needs."""

import re
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

_DISTRIBUTION: Final = "lifebus"
_NAME: Final = re.compile(r"[\w.-]+")


def _installed(distribution: str, otherwise: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return otherwise


def dependency_versions() -> dict[str, str]:
    """Return the installed version of each library that the distribution asks for; nothing in a bare tree."""
    try:
        wanted = requires(_DISTRIBUTION) or []
    except PackageNotFoundError:
        return {}
    names = (found.group() for one in wanted if (found := _NAME.match(one)))
    return {name: _installed(name, "not installed") for name in names}


VERSION: Final = _installed(_DISTRIBUTION, "0+unknown")
"""The version of the installed distribution, ``0+unknown`` when it is run from a bare tree."""
