"""`python -m lifebus.make [-f FILE] [-j JOBS] [GOAL]`."""

from lifebus.make.run import main

if __name__ == "__main__":
    raise SystemExit(main())
