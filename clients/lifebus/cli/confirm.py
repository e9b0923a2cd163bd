"""Asking before something is done that cannot be taken back."""

import sys
from typing import Annotated

from cyclopts import Parameter

from lifebus.cli.exit_codes import UsageError

Yes = Annotated[bool, Parameter(name=("--yes", "-y"), negative="")]
"""The flag that answers yes beforehand."""


def confirm(question: str = "Do this?", *, json: bool, otherwise: str = "--yes does it without asking") -> bool:
    """Return whether the user says yes.

    Raises:
        UsageError: there is no terminal to ask at; `otherwise` says what to do then.
    """
    # Asking a script would block it for ever; asking for JSON shows no plan to agree to.
    if json or not sys.stdin.isatty():
        why = "--json shows nothing to agree to" if json else "stdin is no terminal to ask at"
        raise UsageError(f"{why}; {otherwise}")
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    answer = sys.stdin.readline()
    # Ctrl-D leaves the cursor behind the question.
    if not answer.endswith("\n"):
        sys.stdout.write("\n")
    return answer.strip().lower() in {"y", "yes"}
