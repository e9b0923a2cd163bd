"""A model of the signal log, its publisher and a lossy pipe, to play the views of threads against."""

from collections.abc import Sequence

from lifebus._internal.thread_views import SignalsSince, ThreadItem, ThreadViews
from lifebus_transports.framing.frames import signal_topic
from lifebus_transports.messages.signals import (
    SignalBackfill,
    SignalBeacon,
    SignalPage,
    ThreadHead,
    ThreadHeads,
    ThreadsQuery,
    WireSignal,
)
from support.clients.lossy_pipe import LossyPipe

ADAPTER = "codex"
Message = SignalBeacon | tuple[bytes, str, list[WireSignal]]


class ModelLog:
    """One history: the signals of each thread, and through which number they are dropped."""

    def __init__(self, epoch: str) -> None:
        self.epoch = epoch
        self.signals: dict[str, list[WireSignal]] = {}
        self.floors: dict[str, int] = {}

    def record(self, thread: str) -> WireSignal:
        stored = self.signals.setdefault(thread, [])
        stored.append(
            WireSignal(len(stored) + 1, "app_server.error", f"{self.epoch}/{thread}/{len(stored) + 1}".encode())
        )
        return stored[-1]

    def heads(self, question: ThreadsQuery) -> ThreadHeads:
        wanted = [thread for thread in self.signals if question.thread in {None, thread}]
        heads = [ThreadHead(thread, len(self.signals[thread]), self.floors.get(thread, 0)) for thread in wanted]
        return ThreadHeads(epoch=self.epoch, threads=tuple(heads))

    def page(self, question: SignalBackfill, limit: int) -> SignalPage:
        stored, floor = self.signals.get(question.thread, []), self.floors.get(question.thread, 0)
        gone = question.epoch != self.epoch or question.after < floor
        found = () if gone else tuple(stored[question.after : question.after + limit])
        complete = not gone and question.after + limit >= len(stored)
        last = max(question.after, len(stored)) if complete else found[-1].sequence if found else floor
        return SignalPage(
            epoch=self.epoch,
            rows=found,
            next=last,
            head=len(stored),
            floor=floor,
            complete=complete,
            snapshot_required=gone,
        )


class LossySignals(LossyPipe[Message, ModelLog]):
    """Broker and follower with everything between them in the test's hands."""

    def __init__(self, thread: str | None, since: SignalsSince, history: Sequence[str]) -> None:
        super().__init__(ModelLog)
        self.thread = thread
        self.views = ThreadViews(ADAPTER, thread, since)
        self.seen: list[ThreadItem] = []
        self.answer_waits: ThreadHeads | SignalPage | None = None
        for name in history:
            self.log.record(name)
        self.begin = {name: len(stored) if since is None else 0 for name, stored in self.log.signals.items()}

    def record(self, threads: Sequence[str]) -> None:
        for thread in threads:
            stored, topic = self.log.record(thread), signal_topic(ADAPTER, thread)
            self._changed[topic.decode()] = stored.sequence
            if topic.startswith(self.views.topic):
                self.pipe.append((topic, self.log.epoch, [stored]))

    def beacon(self) -> None:
        changed, self._changed = self._changed, {}
        self.pipe.append(SignalBeacon(epoch=self.log.epoch, number=next(self._beacons), threads=changed))

    def prune(self, thread: str, keep: int) -> None:
        stored = self.log.signals.get(thread, [])
        self.log.floors[thread] = max(self.log.floors.get(thread, 0), len(stored) - keep)

    def _receive(self, message: Message) -> None:
        if isinstance(message, SignalBeacon):
            self.views.note_beacon(message)
        else:
            self.seen.extend(self.views.offer(*message))

    def lose(self, place: int) -> None:
        """Let a message arrive at a follower whose queue is full."""
        for message in self.pipe[place : place + 1]:
            del self.pipe[place]
            if not isinstance(message, SignalBeacon):
                self.views.lose(message[0])

    def ask(self, limit: int) -> None:
        """Ask if the views want to; the broker reads now, the answer comes whenever it comes."""
        question = self.views.ask() if self.answer_waits is None else None
        if isinstance(question, ThreadsQuery):
            self.answer_waits = self.log.heads(question)
        elif question is not None:
            self.answer_waits = self.log.page(question, limit)

    def cancel(self) -> None:
        """Give up the question that is under way."""
        self.answer_waits = None

    def answer(self) -> None:
        answer, self.answer_waits = self.answer_waits, None
        if isinstance(answer, ThreadHeads):
            self.views.place(answer)
        elif answer is not None:
            self.seen.extend(self.views.fill(answer))

    def settle(self) -> None:
        """Lose what is under way; then one beacon arrives, and answers as long as they are wanted."""
        self.pipe.clear()
        self.answer()
        self.beacon()
        self.deliver(0)
        for _ in range(500):
            self.ask(3)
            if self.answer_waits is None:
                return
            self.answer()
        raise AssertionError("the views never caught up")
