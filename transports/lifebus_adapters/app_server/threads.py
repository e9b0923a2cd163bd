"""What is known of each thread: whose it is, what it is called, which turn runs in it.  Pure.

A thread is *system-owned* where the server started it for itself.  Its own record shows it: `source` is an object other
than ``custom``, `threadSource` is neither null nor ``user``, a parent thread is named, it is `ephemeral`, or it belongs
to another thread's session.  Threads of sub-agents are not announced at all: a call names them later.
"""

from typing import Any, Final

from msgspec import Raw, Struct

from lifebus_adapters.app_server.context import decoded, identifier
from lifebus_adapters.app_server.errors import ErrorInfo
from lifebus_adapters.app_server.facts import MAX_FACT
from lifebus_adapters.app_server.messages import ABSENT

MAX_THREADS: Final = 4_096
"""Most threads that are remembered, and most deleted ones; of more, the first that nothing runs in is forgotten."""

_OF_USER: Final = (None, "user")


class Thread(Struct):
    """One thread.  `turn` is the one that runs; the counts are of that turn.

    It is `known` once the server has announced it or a client has named it, and `system` where it is the server's own.
    `live` says that the thread can take turns, `compact_wanted` that the next turn may rewrite the context and no more.
    `compaction_items` and `compaction_notices` count the two ways in which a compaction is reported, `compactions` how
    many were returned;
    `errors` counts the changes of `last_error`, with whether the server tries again.
    """

    id: str
    title: str | None = None
    project_id: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    model: str | None = None
    known: bool = False
    system: bool = False
    forked: bool = False
    live: bool = False
    turn: str | None = None
    compact_wanted: bool = False
    compaction_items: int = 0
    compaction_notices: int = 0
    compactions: int = 0
    errors: int = 0
    last_error: tuple[ErrorInfo, bool] | None = None

    def begin(self, turn: str | None) -> None:
        """Note that a turn runs."""
        self.turn = turn
        self.compaction_items = self.compaction_notices = self.compactions = self.errors = 0
        self.last_error = None


class _GitInfo(Struct):
    branch: Any = None


class _Record(Struct, rename="camel"):
    cwd: Any = None
    git_info: Raw = ABSENT
    id: Any = None
    name: Any = None
    project_id: Any = None
    model: Any = None
    source: Raw = ABSENT
    thread_source: Any = None
    parent_thread_id: Any = None
    forked_from_id: Any = None
    session_id: Any = None
    ephemeral: Any = None


class Threads:
    """The threads of one app-server."""

    def __init__(self) -> None:
        self._threads: dict[str, Thread] = {}
        self._purged: dict[str, None] = {}

    def find(self, thread_id: str) -> Thread:
        """Return a thread, made where it was not known."""
        thread = self._threads.get(thread_id)
        if thread is None:
            thread = self._threads[thread_id] = Thread(thread_id)
            # Rather a closed thread than a live one, whose end would go unreported.
            if len(self._threads) > MAX_THREADS:
                del self._threads[
                    next((one.id for one in self._threads.values() if not one.live), next(iter(self._threads)))
                ]
        return thread

    def learn(self, record: bytes) -> Thread | None:
        """Take in a thread's own record; return the thread, None where it is no record or the thread is deleted."""
        parsed = decoded(record, _Record)
        name = identifier(parsed.id) if parsed is not None else None
        if parsed is None or name is None or self.is_purged(name):
            return None
        thread = self.find(name)
        thread.known = True
        thread.title, thread.project_id = identifier(parsed.name), identifier(parsed.project_id)
        thread.cwd = _directory(parsed.cwd) or thread.cwd
        git = decoded(parsed.git_info, _GitInfo)
        thread.git_branch = (identifier(git.branch) if git is not None else None) or thread.git_branch
        thread.model = identifier(parsed.model) or thread.model
        thread.forked = thread.forked or parsed.forked_from_id is not None
        # Once system, always system: later records may leave out what shows it.
        thread.system = thread.system or _is_of_system(parsed)
        return thread

    def purge(self, thread: Thread) -> None:
        """Forget a deleted thread, and remember that it is."""
        self._threads.pop(thread.id, None)
        # Remembered, so that a late message does not bring the thread back.
        self._purged[thread.id] = None
        if len(self._purged) > MAX_THREADS:
            del self._purged[next(iter(self._purged))]

    def is_purged(self, thread_id: str) -> bool:
        """Whether a thread was deleted."""
        return thread_id in self._purged

    def live(self) -> list[Thread]:
        """Return the user's threads that can take turns."""
        return [thread for thread in self._threads.values() if thread.live and not thread.system]


def _directory(value: Any) -> str | None:
    """Return a directory that a receipt can hold."""
    return value if isinstance(value, str) and 0 < len(value) <= MAX_FACT and value.isprintable() else None


def _is_of_system(parsed: _Record) -> bool:
    made_by = decoded(parsed.source, dict[str, Raw])
    made_by_server = made_by is not None and "custom" not in made_by
    # Without `threadSource`, a thread in the session of another one is not the user's.
    elsewhere = parsed.thread_source is None and parsed.session_id is not None and parsed.session_id != parsed.id
    owned = parsed.parent_thread_id is not None or parsed.ephemeral is True
    return made_by_server or elsewhere or owned or parsed.thread_source not in _OF_USER
