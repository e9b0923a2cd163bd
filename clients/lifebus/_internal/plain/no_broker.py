"""What is said where no broker is; one place for the library and for commands that load none.  Pure."""


def no_broker_words(directory: object) -> tuple[str, str]:
    """Return what is wrong, and what to do."""
    return f"no broker at {directory}", "start one with `lifebus up`"
