"""What can be followed: receipts, a thread's signals, a project's jobs, a session's transcript.  Pure."""

from typing import Final, Literal

from msgspec import Struct

from lifebus_contract import LifecycleEvent, ReceiptStatus
from lifebus_contract.jobs import ADAPTER, project_of, thread_of
from lifebus_contract.transcripts import TRANSCRIPT_THREAD
from lifebus_transports.http.following.order import LINES, LineName

SESSION_ADAPTER: Final = "codex"
"""The adapter whose threads `threadId` names."""

MAX_TOPICS: Final = 32
_MAX_NAME: Final = 256


class Filters(Struct, frozen=True, kw_only=True):
    """Which receipts are wanted; None is no matter."""

    adapter: str | None = None
    session: tuple[str, str] | None = None
    event: LifecycleEvent | None = None
    status: ReceiptStatus | None = None
    failed: bool = False
    waiting: bool = False


class Topic(Struct, frozen=True):
    """One numbered line of records.  `name` is as clients write it; with `line` it is all threads of a kind.

    Without `line` and `adapter` it is the receipts.
    """

    name: str
    adapter: str | None = None
    thread: str = ""
    filters: Filters = Filters()
    line: LineName | None = None

    @property
    def history(self) -> Literal["receipts", "signals", "order"]:
        """Which history its numbers belong to."""
        if self.line is not None:
            return "order"
        return "receipts" if self.adapter is None else "signals"

    @property
    def wakes(self) -> tuple[str, str, str]:
        """Which records change it; the empty names are those of all receipts."""
        if self.line is not None:
            return "order", self.line, ""
        if self.adapter is not None:
            return "signals", self.adapter, self.thread
        adapter, session = self.filters.session or ("", "")
        return "receipts", adapter, session


def parse_topic(name: str, filters: Filters) -> Topic:
    """Return the topic of a name.

    Raises:
        ValueError: there is no such topic.
    """
    kind, _, rest = name.partition("/")
    if not name.isprintable() or len(name) > _MAX_NAME:
        raise ValueError("the name of a topic is printable and not longer than 256 characters")
    match kind:
        case "receipts" if not rest:
            return Topic(name, filters=filters)
        case "signals" | "queue" | "transcripts" if name == kind:
            return Topic(name, line=kind)
        case "queue" | "transcript" if rest:
            return Topic(name, ADAPTER, name)
        case "signals":
            adapter, slash, thread = rest.partition("/")
            if adapter and slash:
                return Topic(name, adapter, thread)
        case _:
            pass
    raise ValueError(
        f"no such topic: {name!r}; known are receipts, signals, queue, transcripts, "
        "signals/ADAPTER/THREAD, queue/PROJECT, transcript/SESSION"
    )


def topics_of(names: tuple[str, ...], thread_id: str | None, filters: Filters) -> tuple[Topic, ...]:
    """Return what a client follows: the topics that it names and those of its thread; without any, everything.

    Without topics, filters leave the receipts alone that they choose.

    Raises:
        ValueError: no such topic, the same one twice, or too many.
    """
    wanted = list(names)
    if thread_id:
        wanted += [
            f"signals/{SESSION_ADAPTER}/{thread_id}",
            TRANSCRIPT_THREAD + thread_id,
            thread_of(project_of(thread_id)),
        ]
    if len(set(wanted)) < len(wanted) or len(wanted) > MAX_TOPICS:
        raise ValueError(f"topics are named once, and {MAX_TOPICS} at most")
    everything = ("receipts", *LINES) if filters == Filters() else ("receipts",)
    return tuple(parse_topic(name, filters) for name in wanted or everything)
