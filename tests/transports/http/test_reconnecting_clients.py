"""Web clients that are cut anywhere and come back, against a model: no hole without a word, and nothing twice.

The broker is a process of its own, which is stopped, killed and given another ledger; the clients are plain sockets.
"""

from urllib.parse import urlencode

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec import Struct

from support.effort import effort
from support.patience import PATIENCE_MS
from support.transports.cut_clients import CutClient, CutEvents, CutSocket, Frames
from support.transports.followed_broker import SESSIONS, THREADS, TOPICS, FollowedBroker
from support.transports.stream_model import Place, Told

CLIENTS = 3
WHO = st.integers(0, CLIENTS - 1)
SESSION = st.sampled_from(SESSIONS)
THREAD = st.sampled_from(THREADS)
IMPATIENT_MS = 100


class Wish(Struct, frozen=True):
    """What a client follows, and by which means."""

    kind: str
    topics: tuple[str, ...]
    thread: str | None
    session: str | None
    begin: str
    batch: bool
    deflate: bool

    @property
    def named(self) -> tuple[str, ...]:
        """The topics that it names; without any it would follow everything, which test_everything.py looks at."""
        return self.topics if self.topics or self.thread else ("receipts",)

    @property
    def query(self) -> list[tuple[str, str]]:
        found = [("topic", topic) for topic in self.named] + [("from", self.begin)]
        found += [("threadId", self.thread)] if self.thread else []
        found += [("adapter", "codex"), ("session", self.session)] if self.session else []
        return found + ([("batch", "true")] if self.batch and self.kind == "socket" else [])

    @property
    def followed(self) -> tuple[str, ...]:
        """The topics in their order; those of a thread come last."""
        of_thread = (f"signals/codex/{self.thread}", f"transcript/{self.thread}", f"queue/session:{self.thread}")
        return self.named + (of_thread if self.thread else ())


WISHES = st.builds(
    Wish,
    kind=st.sampled_from(["socket", "events"]),
    topics=st.lists(st.sampled_from(TOPICS), max_size=3, unique=True).map(tuple),
    thread=st.sampled_from([None, None, *THREADS]),
    session=st.sampled_from([None, None, *SESSIONS[:2]]),
    begin=st.sampled_from(["now", "oldest"]),
    batch=st.booleans(),
    deflate=st.booleans(),
).filter(lambda wish: len(set(wish.followed)) == len(wish.followed))


class Client(Struct):
    """One client: what it wants, what it was told, and its connection where it has one."""

    wish: Wish
    told: Told
    connection: CutClient | None = None


class Reconnecting(RuleBasedStateMachine):
    """A broker with a gateway, what is recorded there, and those who follow it."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: list[Client] = []
        self.begun: FollowedBroker | None = None

    @initialize(
        slow_ms=st.sampled_from([IMPATIENT_MS, PATIENCE_MS]),
        wishes=st.lists(WISHES, min_size=CLIENTS, max_size=CLIENTS),
    )
    def begin(self, slow_ms: int, wishes: list[Wish]) -> None:
        self.begun = FollowedBroker(slow_ms)
        for who, wish in enumerate(wishes):
            self.another_client_comes(who, wish)

    @property
    def broker(self) -> FollowedBroker:
        assert self.begun is not None
        return self.begun

    def teardown(self) -> None:
        if self.begun is None:
            return
        try:
            if self.broker.process.alive:
                self.everybody_gets_everything()
        finally:
            for client in self.clients:
                self.leave(client)
            self.broker.close()

    def everybody_gets_everything(self) -> None:
        """Whoever comes back gets the rest, and then what is recorded next, and nothing in between."""
        for client in self.clients:
            self.read_all(client)
        self.broker.receipts(SESSIONS[0], 1)
        for thread in THREADS:
            self.broker.signals(thread, 1)
            self.broker.entries(thread, "m", 1)
        for client in self.clients:
            self.read_all(client)
        assert "Traceback" not in self.broker.process.log

    # What is recorded

    @rule(session=SESSION, count=st.sampled_from([1, 1, 2, 5, 60]))
    def receipts_come(self, session: str, count: int) -> None:
        self.broker.receipts(session, count)

    @rule(thread=THREAD, count=st.sampled_from([1, 3, 50]))
    def signals_come(self, thread: str, count: int) -> None:
        self.broker.signals(thread, count)

    @rule(thread=THREAD)
    def more_signals_come_than_are_kept(self, thread: str) -> None:
        self.broker.signals(thread, 40, 30_000)

    @rule(thread=THREAD, message_id=st.sampled_from(["m1", "m2"]), count=st.integers(1, 3))
    def entries_change(self, thread: str, message_id: str, count: int) -> None:
        self.broker.entries(thread, message_id, count)

    @rule(thread=THREAD)
    def a_job_is_done(self, thread: str) -> None:
        self.broker.job(thread)

    # What is lost

    @precondition(lambda self: self.broker.world.lines["receipts"].floor < self.broker.world.lines["receipts"].head)
    @rule(data=st.data())
    def receipts_are_pruned(self, data: st.DataObject) -> None:
        line = self.broker.world.lines["receipts"]
        self.broker.prune(data.draw(st.integers(line.floor + 1, line.head)))

    @rule()
    def a_session_is_deleted(self) -> None:
        self.broker.delete(THREADS[0])

    @rule(kill=st.booleans())
    def the_broker_starts_again(self, kill: bool) -> None:
        self.broker.end(kill=kill)
        self.broker.start()
        self.read_what_is_left()

    @rule(session=SESSION, count=st.integers(1, 30), answered=st.integers(0, 3))
    def the_broker_is_killed_amid_emissions(self, session: str, count: int, answered: int) -> None:
        self.broker.receipts_amid_a_kill(session, count, answered)
        self.read_what_is_left()

    @rule()
    def the_ledger_is_replaced(self) -> None:
        for client in self.clients:
            self.leave(client)
        self.broker.replace_ledger()

    # Those who follow

    @rule(who=WHO, wish=WISHES)
    def another_client_comes(self, who: int, wish: Wish) -> None:
        """In the place of one that was there, if there was."""
        for old in self.clients[who : who + 1]:
            self.leave(old)
        session, is_filtered = wish.session, wish.session is not None and "receipts" in wish.followed
        told = Told(
            self.broker.world,
            wish.followed,
            # Of all records only receipts have five parts.
            lambda record: session is None or len(record) < 5 or record[0] == session,
            exact=not is_filtered,
        )
        self.clients[who : who + 1] = [Client(wish, told)]
        self.open(self.clients[who])

    @rule(who=WHO, back=st.sampled_from([0, 0, 0, 1, 5, 50]), ticket=st.booleans(), header=st.booleans())
    def a_client_comes_back(self, who: int, back: int, ticket: bool, header: bool) -> None:
        self.open(self.clients[who], back, ticket=ticket, header=header)

    @rule(who=WHO, count=st.one_of(st.integers(0, 1_500), st.integers(0, 100_000)), reset=st.booleans())
    def a_client_is_cut_behind_some_byte(self, who: int, count: int, reset: bool) -> None:
        client = self.clients[who]
        if client.connection is not None:
            self.take(client, client.connection.read_exactly(count, 0.02))
            self.leave(client, reset=reset)

    @rule(who=WHO)
    def a_client_reads_everything(self, who: int) -> None:
        self.read_all(self.clients[who])

    @rule(who=WHO, back=st.sampled_from([0, 1, 20]))
    def a_client_of_a_socket_asks_again_without_leaving(self, who: int, back: int) -> None:
        client = self.clients[who]
        self.read_all(client)
        if not isinstance(client.connection, CutSocket):
            return
        last, place = self.last_of(client, back)
        command = {"type": "subscribe", "topics": client.wish.named, "lastEventId": last}
        client.connection.send(command | ({"threadId": client.wish.thread} if client.wish.thread else {}))
        client.told.ask(place)
        self.read_all(client)

    def open(self, client: Client, back: int = 0, *, ticket: bool = False, header: bool = True) -> None:
        """Open a connection from the last id, or from one that came before it; nothing where there is one."""
        if client.connection is not None:
            return
        address = self.broker.address
        last, place = self.last_of(client, back)
        query, headers = client.wish.query, dict(address.bearer)
        if last is not None and header:
            headers["Last-Event-ID"] = last
        elif last is not None:
            query.append(("lastEventId", last))
        if ticket:
            query.append(("ticket", self.broker.ticket()))
            del headers["Authorization"]
        client.told.ask(place, client.wish.begin)
        if client.wish.kind == "events":
            client.connection = CutEvents(address.port, f"/api/events?{urlencode(query)}", headers)
        else:
            target = f"/api/stream?{urlencode(query)}"
            client.connection = CutSocket(address.port, target, headers, deflate=client.wish.deflate)

    def last_of(self, client: Client, back: int) -> tuple[str | None, Place | None]:
        ids = client.told.ids
        return ids[max(0, len(ids) - 1 - back)] if ids else (None, None)

    def read_all(self, client: Client) -> None:
        """Read until nothing is to come; one that is too slow for the gateway comes back."""
        self.open(client)
        while not client.told.is_complete:
            self.open(client)
            self.read(client)
            assert client.connection or self.broker.slow_ms == IMPATIENT_MS, "the gateway ended a stream"

    def read_what_is_left(self) -> None:
        """The broker has ended, and another one answers: each client reads what reached it still."""
        for client in self.clients:
            while client.connection is not None:
                self.read(client)

    def read(self, client: Client) -> None:
        assert client.connection is not None
        self.take(client, client.connection.read())
        if client.connection.ended:
            self.leave(client)

    def leave(self, client: Client, *, reset: bool = False) -> None:
        """End the connection of a client, if it has one."""
        if client.connection is not None:
            client.connection.cut(reset=reset)
            client.connection = None

    def take(self, client: Client, frames: Frames) -> None:
        for frame in frames:
            client.told.take(frame)


Reconnecting.TestCase.settings = settings(
    max_examples=effort(4, 1_000),
    stateful_step_count=effort(15, 50),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestReconnectingClients = Reconnecting.TestCase
