"""The versions of the package and of what it needs."""

TYPE_CHECKING = False  # quick commands ask for the version, and `typing` and `re` would take longer than they do
if TYPE_CHECKING:
    from typing import Final

VERSION: "Final" = "0.1.0"
"""The version of lifebus, as pyproject.toml has it: to ask for what is installed takes 40 ms."""

_DISTRIBUTION: "Final" = "lifebus"
_NAME: "Final" = r"[\w.-]+"


def installed_version() -> str | None:
    """Return the version that is installed now, maybe over the one that runs; None in a bare tree."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  as above

    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        return None


def dependency_versions() -> dict[str, str]:
    """Return the installed version of each library that the distribution asks for; nothing in a bare tree."""
    import re  # noqa: PLC0415  as above
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
    return {found.group(): installed(found.group()) for one in wanted if (found := re.match(_NAME, one))}
