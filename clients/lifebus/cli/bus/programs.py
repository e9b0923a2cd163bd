"""What a command on the command line is: whether it can be run at all, and the name that its program gives it."""

import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lifebus.cli.exit_codes import UsageError

_VERSION: Final = r"\d*(?:\.\d+)*t?"
# These run the file that is their first argument
_SCRIPTED: Final = re.compile(rf"(?:python|pypy|node|nodejs|ruby|perl|php|lua|Rscript|bash|dash|sh|zsh|ksh){_VERSION}")
_RUNNER: Final = re.compile(rf"(?:{_SCRIPTED.pattern}|deno|bun|java|fish|uv|uvx|npx|pipx|env)")
_DIGEST: Final = 6
_SHOWN: Final = 200


def require_command(command: Sequence[str]) -> None:
    """Refuse what is no command, or one that can never be started.

    Raises:
        UsageError: it is refused.
    """
    if not command or not command[0]:
        raise UsageError("give a command after `--`")
    require_program(command)


def require_program(command: Sequence[str]) -> None:
    """Refuse a command that can never be started: every dispatch would fail, and only receipts would say so.

    Raises:
        UsageError: there is no such program, it may not be run, or the file that its interpreter is to run is missing.
    """
    shown, path = command[0][:_SHOWN], Path(command[0])
    if "/" not in command[0]:
        if shutil.which(command[0]) is None:
            raise UsageError(f"there is no program `{shown}` on the PATH; a file here is called ./{shown}")
    elif not path.exists():
        raise UsageError(f"there is no program {shown}; name one behind `--` by its path or its name on the PATH")
    elif path.is_dir() or not os.access(path, os.X_OK):
        raise UsageError(f"{shown} cannot be run; `chmod +x` it, or name its interpreter before it")
    script = command[1] if len(command) > 1 and _SCRIPTED.fullmatch(path.name) else "-"
    if not script.startswith("-") and not Path(script).exists():
        raise UsageError(f"there is no file {script[:_SHOWN]}, which {path.name} is to run")


def name_of_program(command: Sequence[str]) -> str:
    """Return the client id that a command gets by its program.

    What an interpreter runs is named by its file and a digest of where that is, a module of Python by the module, and
    what has no file by a digest of the command: two of them must not take each other's place.
    """
    program = Path(command[0]).name
    if _RUNNER.fullmatch(program) is None:
        return program
    if "-m" in command[1:-1]:
        return command[command.index("-m") + 1]
    script = next((Path(word) for word in command[1:] if not word.startswith("-") and _is_file(word)), None)
    if script is None:
        return f"{program}-{_digest(os.fsencode(chr(0).join(command)))}"
    return f"{script.name}-{_digest(os.fsencode(script.resolve()))}"


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except (OSError, ValueError):  # too long for a name: the text of a program
        return False


def _digest(what: bytes) -> str:
    return hashlib.sha256(what).hexdigest()[:_DIGEST]
