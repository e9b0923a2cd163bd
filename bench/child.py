"""A part of a benchmark in a process of its own, which reports its progress in lines of words."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def child(module: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """Run ``python -m module`` for the length of the block, which starts when it says that it is ready."""
    command = [sys.executable, "-m", module, *[str(argument) for argument in arguments]]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        # The child connects first: its start-up time is not part of any figure.
        expect(process, "ready")
        yield process
    finally:
        process.kill()
        process.communicate()


def expect(process: "subprocess.Popen[str]", keyword: str) -> list[str]:
    """Return the words behind `keyword` on the process's next line."""
    line = process.stdout.readline() if process.stdout else ""
    if not line.startswith(keyword):
        raise RuntimeError(f"expected `{keyword}`, got `{line}`")
    return line.split()[1:]
