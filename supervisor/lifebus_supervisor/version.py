"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final


def _installed() -> str:
    try:
        return version("lifebus")
    except PackageNotFoundError:
        return "0+unknown"


VERSION: Final = _installed()
"""The version of the installed distribution, ``0+unknown`` when it is run from a bare tree."""
