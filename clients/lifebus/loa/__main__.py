"""`python -m lifebus.loa [--own-broker]`: the runtime of lifebus, asked on stdin and answering on stdout."""

import argparse
import sys

import anyio

from lifebus.loa.program import RuntimeProgram
from lifebus_contract import LifebusError


def main() -> int:
    """Serve one conversation; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lifebus.loa", description="A runtime of Loa workflows.")
    parser.add_argument("--own-broker", action="store_true", help="run a broker of its own, in the state folder")
    program = RuntimeProgram(own_broker=parser.parse_args().own_broker)
    try:
        anyio.run(program.serve, sys.stdin.fileno(), sys.stdout.fileno())
    except (BrokenPipeError, KeyboardInterrupt):
        return 0
    except LifebusError as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
