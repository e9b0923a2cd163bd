"""What signals are called.  Pure."""

import signal


def signal_name(number: int) -> str:
    """Return the name of a signal for people; its number where it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
