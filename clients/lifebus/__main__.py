"""`python -m lifebus` is the command line."""

from lifebus.cli import main

if __name__ == "__main__":
    main()
