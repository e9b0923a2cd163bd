"""The command of an environment that has the client library alone: it says where the commands are."""

import json
import sys
from importlib.metadata import version
from typing import Final

_UNAVAILABLE: Final = 69


def main() -> None:
    """Say that commands come with the whole of lifebus, and exit with 69; `version` and `--version` are answered."""
    words = sys.argv[1:]
    if words[:1] in (["version"], ["--version"]):
        print(f"lifebus-client {version('lifebus-client')}")  # noqa: T201  it is a command
        return
    what = f"`lifebus {words[0]}`" if words and not words[0].startswith("-") else "the command `lifebus`"
    lines = [
        "install the whole of lifebus: pip uninstall lifebus-client, then pip install lifebus",
        f"{what} is not in lifebus-client, which is the client library and the hook alone",
    ]
    if "--json" in words:
        error = {"exit_code": _UNAVAILABLE, "detail": lines[1], "next": lines[:1], "code": None}
        print(json.dumps({"error": error}), file=sys.stderr)  # noqa: T201
    else:
        print(f"lifebus: {lines[0]}\n  {lines[1]}", file=sys.stderr)  # noqa: T201
    sys.exit(_UNAVAILABLE)
