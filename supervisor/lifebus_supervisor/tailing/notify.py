"""Changes in a set of folders, by the operating system's notifications."""

import math
import os
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import anyio
import structlog

from lifebus_supervisor.tailing.blocking_call import BlockingCall

MAX_FOLDERS: Final = 512
"""How many folders are monitored; inotify has a limited number of watches for all programs of a user."""

_APART_S: Final = 0.2
_RECHECK_S: Final = 1.0
"""How often the set of folders is asked for again."""
_STEP_MS: Final = 50

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger("lifebus.tailing")


async def folder_changes(folders: Callable[[], Sequence[str]]) -> AsyncGenerator[None, None]:
    """Yield when something happens in one of the folders, at most every 200 ms, until the system can no longer notify.

    `folders` is called again and again; that the set has changed counts as a change.
    """
    first = True
    while True:
        notifications = _Notifications(_limited(folders))
        try:
            while first or notifications.folders == _limited(folders):
                first = False
                happened = await notifications.wait()
                if happened is None:
                    return
                if happened:
                    yield
                    await anyio.sleep(_APART_S)
        finally:
            notifications.end()
        yield  # between two sets of folders changes may be missed


def _limited(folders: Callable[[], Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(folders()))[:MAX_FOLDERS]


class _Notifications:
    """The notifications about one set of folders."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self.folders = folders
        self._stop = threading.Event()
        self._changes = _changes(folders, self._stop)
        self._call: BlockingCall[bool] = BlockingCall("change notifications")

    async def wait(self) -> bool | None:
        """Wait a second, or until something happens; return whether it did, None where the system cannot notify."""
        self._call.start(partial(next, self._changes, False))
        # No deadline: the generator yields once a second by itself.
        await self._call.wait(math.inf)
        try:
            return self._call.result()
        except FileNotFoundError:
            return True  # a folder went away just now
        except (OSError, RuntimeError) as fault:
            # Most often inotify's limits are used up by other programs; polls find everything all the same.
            _log.info("change_notifications_ended", fault=type(fault).__name__)
            return None

    def end(self) -> None:
        """Stop; a thread that waits for notifications ends by itself."""
        self._stop.set()
        with suppress(ValueError):  # a thread is waiting in it
            self._changes.close()


def _changes(folders: Sequence[str], stop: threading.Event) -> Generator[bool, None, None]:
    """Yield whether something happened, at least once a second; blocks."""
    # watchfiles refuses paths that do not exist, and a harness makes its folders at its first start.
    there = [folder for folder in folders if os.path.isdir(folder)]  # noqa: PTH112  paths are plain text here
    while not there:
        stop.wait(_RECHECK_S)
        yield False
        there = [folder for folder in folders if os.path.isdir(folder)]  # noqa: PTH112
    from watchfiles import watch  # noqa: PLC0415  only where a harness has folders

    for changes in watch(
        *there,
        watch_filter=None,
        debounce=int(_APART_S * 1000),
        step=_STEP_MS,
        stop_event=stop,
        rust_timeout=int(_RECHECK_S * 1000),
        yield_on_timeout=True,
        raise_interrupt=False,
        recursive=False,
        ignore_permission_denied=True,
    ):
        yield bool(changes)
