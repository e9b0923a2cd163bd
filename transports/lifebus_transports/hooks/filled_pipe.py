"""A pipe that holds all of a hook's stdin before the hook starts, which counts its time from then."""

import os


def filled_pipe(data: bytes) -> int:
    """Return the reading end of a pipe that holds the data: writing cannot fail when a hook gives up early.

    Raises:
        BlockingIOError: more data than a pipe holds.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        written = os.write(writing, data)
    finally:
        os.close(writing)
    if written != len(data):
        os.close(reading)
        raise BlockingIOError(f"{len(data)} bytes are more than a pipe holds")
    return reading
