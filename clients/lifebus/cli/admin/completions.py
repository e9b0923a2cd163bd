"""`lifebus completions`."""

from typing import Literal

from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import put


def completions(shell: Literal["bash", "zsh", "fish"]) -> ExitCode:
    """Print a completion script, e.g. `lifebus completions bash > ~/.local/share/bash-completion/completions/lifebus`.

    Args:
        shell: Which shell.
    """
    from lifebus.cli.app import make_app  # noqa: PLC0415

    put(make_app().generate_completion(prog_name="lifebus", shell=shell))
    return ExitCode.OK
