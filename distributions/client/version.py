"""The version of the tree: that of `lifebus`, in the `pyproject.toml` above, or beside this file in an sdist."""

import tomllib
from pathlib import Path

HERE = Path(__file__).parent
TREE = HERE / "tree" if (HERE / "tree").is_dir() else HERE.parent.parent


def version_of_the_tree() -> str:
    """Return the one version that `lifebus` and `lifebus-client` have."""
    return tomllib.loads((TREE / "pyproject.toml").read_text())["project"]["version"]
