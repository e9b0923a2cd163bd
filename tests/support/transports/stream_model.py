"""What a client of streams must get, as a model: numbered lines of records, and the place of each client in them.

The model knows what was recorded because it had it recorded; it knows nothing of cursors, pages or wakes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Record: TypeAlias = tuple[object, ...]
"""What tells a record from all others, the same of what was recorded and of a frame."""

Frame: TypeAlias = Mapping[str, Any]

ABOUT_THE_STREAM = {"behind", "caught_up", "cursor", "pong"}


@dataclass
class Line:
    """The records of one topic: the first has the number 1.  Those up to `floor` are gone, `reason` says why."""

    records: list[Record] = field(default_factory=list[Record])
    floor: int = 0
    reason: str = "pruned"
    look: Callable[[], int] | None = None
    """Asks for a floor that moves by itself."""

    @property
    def head(self) -> int:
        return len(self.records)

    def floor_now(self) -> int:
        """The floor, asked for anew where it moves by itself."""
        if self.look is not None:
            self.floor = max(self.floor, self.look())
        return self.floor

    def explains(self, reason: str, through: int) -> bool:
        """Whether records up to a number were gone for this reason when it was said: before the deletion, or by it."""
        return reason == self.reason or (reason == "pruned" and through < self.floor_now())


@dataclass
class World:
    """What is recorded; `history` counts the ledgers that were."""

    lines: dict[str, Line]
    history: int = 0


@dataclass(frozen=True)
class Place:
    """Up to which number of each topic a client got everything that it wants, and of which history."""

    history: int
    numbers: tuple[int, ...]


def record_of(frame: Frame) -> Record:
    """What a frame is about."""
    payload = frame["payload"]
    kind = str(frame["topic"]).partition("/")[0]
    if kind == "receipts":
        receipt = payload["receipt"]
        session = receipt["harness_session_id"]
        assert frame["threadId"] == session
        return (session, payload["position"], payload["sequence"], receipt["receipt_id"], receipt["event"])
    if kind == "signals":
        envelope = payload["signal"]
        assert envelope["eventType"] == frame["type"]
        return (frame["threadId"], payload["sequence"], frame["type"], envelope["params"]["number"])
    if kind == "transcript":
        return (frame["threadId"], payload["entry"]["messageId"], payload["entry"]["content"])
    return (str(frame["type"]).removeprefix("orchestrator_job_"), payload["jobId"])


@dataclass(frozen=True)
class Opening:
    """A stream that was asked for, from where, and how the world was then: the answer is of then or of later."""

    last: Place | None
    begin: str
    heads: tuple[int, ...]
    floors: tuple[int, ...]


class Told:
    """What one client follows and was told, through all its connections."""

    def __init__(self, world: World, topics: Sequence[str], wants: Callable[[Record], bool], *, exact: bool) -> None:
        self.topics = tuple(topics)
        self.place: Place | None = None
        self.ids: list[tuple[str, Place]] = []
        """Each id that came, and the place that it stands for."""
        self.opening: Opening | None = None
        """What was asked for, until its first frame comes."""
        self.resumes: list[str] = []
        self._world = world
        self._wants = wants
        self._exact = exact  # whether no record is left out by a filter, so that each number is known

    def ask(self, last: Place | None, begin: str = "now") -> None:
        """A stream is asked for from a place."""
        lines = [self._world.lines[topic] for topic in self.topics]
        self.opening = Opening(
            last, begin, tuple(line.head for line in lines), tuple(line.floor_now() for line in lines)
        )

    @property
    def is_complete(self) -> bool:
        """Whether nothing that was recorded is to come any more."""
        return self.opening is None and not any(self._next(index) for index in range(len(self.topics)))

    def take(self, frame: Frame) -> None:
        """Hold a frame to the model."""
        if frame["type"] == "ready":
            self._open(frame)
        elif frame["type"] == "gap":
            self._lose(frame["payload"])
        elif frame["type"] not in ABOUT_THE_STREAM:
            self._get(frame)
        if frame.get("id") is not None and self.place is not None:
            self.ids.append((frame["id"], self.place))

    def _next(self, index: int) -> int:
        """The number of the next record that is wanted, 0 where there is none."""
        if self.place is None:
            return 0
        assert self.place.history == self._world.history, "a stream of a history that is over"
        records = self._world.lines[self.topics[index]].records
        start = self.place.numbers[index]
        return next((number for number, one in enumerate(records[start:], start + 1) if self._wants(one)), 0)

    def _move(self, index: int, number: int) -> None:
        assert self.place is not None
        numbers = list(self.place.numbers)
        numbers[index] = number
        self.place = Place(self.place.history, tuple(numbers))

    def _get(self, frame: Frame) -> None:
        index = self.topics.index(frame["topic"])
        number = self._next(index)
        assert number, f"nothing is to come, and this came: {frame}"
        assert record_of(frame) == self._world.lines[frame["topic"]].records[number - 1], "a hole, or a double"
        self._move(index, number)

    def _lose(self, missing: Mapping[str, Any]) -> None:
        """A gap while the stream is open."""
        index = self.topics.index(missing["topic"])
        line = self._world.lines[missing["topic"]]
        assert self.place is not None
        start = self.place.numbers[index]
        assert line.explains(missing["reason"], missing["through"])
        assert start <= missing["after"] if not self._exact else start == missing["after"]
        assert missing["after"] < missing["through"] <= line.floor_now()
        self._move(index, missing["through"])

    def _open(self, frame: Frame) -> None:
        """The first frame of a stream: it says from where, and exactly what is missing."""
        assert self.opening is not None, "nobody asked for another stream"
        opening, self.opening = self.opening, None
        ready = frame["payload"]
        self.resumes.append(ready["resume"])
        assert [one["topic"] for one in ready["topics"]] == list(self.topics)
        missing = {one["topic"]: one for one in ready["missing"]}
        assert len(missing) == len(ready["missing"])
        assert ready["resume"] == ("none" if opening.last is None else "incomplete" if missing else "complete")
        starts = list[int]()
        for index, (topic, standing) in enumerate(zip(self.topics, ready["topics"], strict=True)):
            line, start = self._world.lines[topic], int(standing["after"])
            assert opening.heads[index] <= standing["head"] <= line.head
            if opening.last is not None:
                was = opening.last.numbers[index] if opening.last.history == self._world.history else None
                self._check_resume(line, was, start, missing.get(topic), opening.floors[index])
            elif opening.begin == "now":
                assert start == standing["head"]
            else:
                assert opening.floors[index] <= start <= line.floor_now()
            # Numbers that a filter leaves out are behind the client as well; no wanted one is.
            starts.append(start)
        self.place = Place(self._world.history, tuple(starts))

    def _check_resume(
        self, line: Line, was: int | None, start: int, lost: Mapping[str, Any] | None, floor: int
    ) -> None:
        """Nothing wanted lies between where the client was and where the stream begins, unless it was told so.

        `was` is None where that was in another history.
        """
        if lost is not None:
            assert lost["reason"] == "other_history" if was is None else line.explains(lost["reason"], start)
            assert floor <= start == lost["through"] <= line.floor_now()
            if was is not None:
                assert was <= lost["after"] < start
                assert was == lost["after"] or not self._exact
            return
        assert was is not None
        assert was <= start
        assert was == start or not self._exact
        assert not any(map(self._wants, line.records[was : max(start, floor)])), "a silent hole"
